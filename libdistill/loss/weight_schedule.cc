#include "libdistill/loss/weight_schedule.h"

#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "libdistill/core/field_text.h"

namespace distill {

double WeightAt(double start, const WeightSchedule& schedule, double progress) {
  if (schedule.shape == WeightShape::kConstant) return start;
  const double end = schedule.end.value_or(start);
  const double share =
      schedule.shape == WeightShape::kLinear ? progress : 0.5 * (1 - std::cos(std::numbers::pi * progress));
  return share >= 1 ? end : start + (end - start) * share;
}

absl::Status CheckWeightSchedule(const std::string& name, const WeightSchedule& schedule) {
  if ((schedule.shape == WeightShape::kConstant) != schedule.end.has_value()) return absl::OkStatus();
  if (schedule.end.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, "_end without a schedule: set ", name, "_schedule to linear or cosine"));
  }
  return absl::InvalidArgumentError(absl::StrCat(name, "_schedule: ", FieldText(schedule.shape), " needs ", name,
                                                 "_end, the value at the last step"));
}

}  // namespace distill
