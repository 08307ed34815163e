#include "libdistill/plan/report_numbers.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace distill {

std::string WithCommas(int64_t number) {
  std::string text = absl::StrCat(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

std::string ThreeDigits(double number) {
  return std::abs(number) >= 99.95 ? absl::StrFormat("%.0f", number) : absl::StrFormat("%.3g", number);
}

std::string Cents(double dollars) {
  const int64_t cents = std::llround(100 * dollars);
  return absl::StrFormat("%s.%02d", WithCommas(cents / 100), cents % 100);
}

double GiB(int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); }

}  // namespace distill
