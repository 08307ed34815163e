#include "libdistill/metrics/axis.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace distill {
namespace {

constexpr double kDecades = 30;  // one and a half
constexpr int kFewDecades = 3;
constexpr double kRoom = 0.05;  // of the height, above and below the values
constexpr double kLeastWidth = 1e-290;

int ExponentOf(double value) { return static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9)); }

// Of the least step that is 1, 2 or 5 times a power of ten and puts at most `most` ticks into the width.
double NiceStep(double width, int most) {
  const double power = std::pow(10, ExponentOf(width / most));
  for (const double factor : {1.0, 2.0, 5.0, 10.0, 20.0}) {
    if (std::floor(width / (factor * power) + 1e-9) + 1 <= most) return factor * power;
  }
  return 50 * power;
}

// Labels of one axis have as many digits behind the point as its step needs.
std::string LinearLabel(double value, double step, double greatest) {
  if (value == 0) return "0";
  int exponent = 0;
  std::string suffix;
  if (greatest >= 1e10 || (greatest < 0.1 && step < 0.99e-4)) {
    exponent = ExponentOf(value);
    suffix = absl::StrCat("e", exponent);
  } else if (greatest >= 1e7) {
    exponent = 6, suffix = "M";
  } else if (greatest >= 1e4) {
    exponent = 3, suffix = "k";
  }
  const int digits = std::max(0, exponent - ExponentOf(step));
  return absl::StrFormat("%.*f%s", digits, value / std::pow(10, exponent), suffix);
}

std::string LogLabel(int factor, int exponent) {
  if (exponent < -4 || exponent >= 6) return absl::StrCat(factor, "e", exponent);
  if (exponent >= 4) return absl::StrCat(static_cast<int64_t>(factor * std::pow(10, exponent - 3)), "k");
  return absl::StrFormat("%.*f", std::max(0, -exponent), factor * std::pow(10, exponent));
}

}  // namespace

double Axis::Place(double value) const {
  if (is_log) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

bool SpansDecades(std::vector<double> values) {
  if (values.empty()) return false;
  std::sort(values.begin(), values.end());
  const double least = values.front(), greatest = values.back(), median = values[values.size() / 2];
  return least > 0 && greatest >= kDecades * least && median - least < 0.1 * (greatest - least);
}

Axis LinearAxis(double low, double high, int most_ticks, double least_step) {
  Axis axis{.low = low, .high = high};
  const double step = std::max(least_step, NiceStep(high - low, most_ticks));
  const double greatest = std::max(std::abs(low), std::abs(high));
  const auto first = static_cast<int64_t>(std::ceil(low / step - 1e-9));
  const auto last = static_cast<int64_t>(std::floor(high / step + 1e-9));
  for (int64_t i = first; i <= last; ++i) {
    const double value = static_cast<double>(i) * step;
    axis.ticks.push_back({value, LinearLabel(value, step, greatest)});
  }
  return axis;
}

Axis LogAxis(double low, double high, int most_ticks) {
  Axis axis{.low = low, .high = high, .is_log = true};
  const int first = ExponentOf(low), last = ExponentOf(high);
  const int stride = std::max(1, (last - first + most_ticks) / most_ticks);
  const bool has_between = last - first <= kFewDecades;
  for (int exponent = first; exponent <= last; ++exponent) {
    if (exponent % stride != 0) continue;
    for (const int factor : {1, 2, 5}) {
      const double value = factor * std::pow(10, exponent);
      if ((factor > 1 && !has_between) || value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
      axis.ticks.push_back({value, LogLabel(factor, exponent)});
    }
  }
  return axis;
}

Axis AxisOf(const std::vector<double>& values, int most_ticks) {
  if (values.empty()) return LinearAxis(0, 1, most_ticks);
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  const double low = *least, high = *greatest;
  if (SpansDecades(values)) {
    const double room = std::pow(high / low, kRoom);
    return LogAxis(low / room, high * room, most_ticks);
  }
  if (high - low <= std::max(kLeastWidth, 1e-12 * std::abs(low))) {
    const double half = std::abs(low) <= kLeastWidth ? 1 : std::abs(low) / 2;
    return LinearAxis(low - half, high + half, most_ticks);
  }
  const double room = kRoom * (high - low);
  // From zero on, where that takes little of the height.
  const bool from_zero = low >= 0 && low < 0.3 * high;
  return LinearAxis(from_zero ? 0 : low - room, high + room, most_ticks);
}

}  // namespace distill
