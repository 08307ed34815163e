// A weight of the loss that changes over the steps of a run.
//
//   alpha: 0.2
//   alpha_schedule: cosine
//   alpha_end: 0.8
//
// The first step has the weight itself, the last one `end`: what lies between depends on the step's number and on how
// many there are, and on nothing else, so a run that is resumed has the weights of one that was not.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "libdistill/core/describe.h"

namespace distill {

enum class WeightShape { kConstant, kLinear, kCosine };
constexpr EnumNames<WeightShape, 3> NamesOf(WeightShape) {
  return {{{"constant", WeightShape::kConstant}, {"linear", WeightShape::kLinear}, {"cosine", WeightShape::kCosine}}};
}

struct WeightSchedule {
  WeightShape shape = WeightShape::kConstant;
  std::optional<double> end = std::nullopt;
};

// At `progress`, from 0 for the first step to 1 for the last; exactly `start` and `end` there. `start` where the shape
// is constant. Cosine: half a wave, slow at both ends.
double WeightAt(double start, const WeightSchedule& schedule, double progress);

// InvalidArgument: a shape without an end, or an end without a shape. `name`: of the weight's option.
[[nodiscard]] absl::Status CheckWeightSchedule(const std::string& name, const WeightSchedule& schedule);

}  // namespace distill
