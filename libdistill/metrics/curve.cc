#include "libdistill/metrics/curve.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

namespace distill {
namespace {

// The points of one range of steps that stay, as positions in the curve.
class Bin {
 public:
  void Add(const std::vector<CurvePoint>& points, size_t i) {
    if (!std::isfinite(points[i].value)) {
      if (!gap_) gap_ = i;
      return;
    }
    if (!least_ || points[i].value < points[*least_].value) least_ = i;
    if (!greatest_ || points[i].value > points[*greatest_].value) greatest_ = i;
  }

  void MoveTo(const std::vector<CurvePoint>& points, std::vector<CurvePoint>& kept) {
    std::vector<size_t> chosen;
    for (const std::optional<size_t>& i : {least_, greatest_, gap_}) {
      if (i) chosen.push_back(*i);
    }
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    for (const size_t i : chosen) kept.push_back(points[i]);
    *this = {};
  }

 private:
  std::optional<size_t> least_, greatest_, gap_;
};

}  // namespace

std::vector<CurvePoint> Thinned(const std::vector<CurvePoint>& points, size_t bins) {
  if (points.size() <= 2 * bins) return points;
  const double first = points.front().step, width = points.back().step - first;
  const auto bin_of = [&](double step) {
    return width > 0 ? std::min(bins - 1, static_cast<size_t>((step - first) / width * static_cast<double>(bins))) : 0;
  };
  std::vector<CurvePoint> kept;
  Bin bin;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i > 0 && bin_of(points[i].step) != bin_of(points[i - 1].step)) bin.MoveTo(points, kept);
    bin.Add(points, i);
  }
  bin.MoveTo(points, kept);
  return kept;
}

std::vector<CurvePoint> RunningMean(const std::vector<CurvePoint>& points, int64_t count) {
  std::vector<CurvePoint> means;
  std::deque<double> last;
  for (CurvePoint point : points) {
    if (std::isfinite(point.value)) {
      last.push_back(point.value);
      if (static_cast<int64_t>(last.size()) > count) last.pop_front();
      double sum = 0;
      for (const double value : last) sum += value;
      point.value = sum / static_cast<double>(last.size());
    }
    means.push_back(point);
  }
  return means;
}

void Curve::Add(double step, double value) {
  points_.push_back({step, value});
  if (points_.size() > most_points_) points_ = Thinned(points_, most_points_ / 8);
}

void RunCurves::Add(int64_t step, const NamedValues& values) {
  for (const auto& [name, value] : values) {
    auto found = std::find_if(curves.begin(), curves.end(), [&](const auto& curve) { return curve.first == name; });
    if (found == curves.end()) found = curves.emplace(curves.end(), name, Curve(most_points));
    found->second.Add(static_cast<double>(step), value);
  }
}

const Curve* RunCurves::Find(absl::string_view name) const {
  for (const auto& [own, curve] : curves) {
    if (own == name) return &curve;
  }
  return nullptr;
}

}  // namespace distill
