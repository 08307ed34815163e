// Learning rate over the steps of a run: warm-up, then cosine, linear or constant, as transformers computes them
// (optimization.py, get_cosine_schedule_with_warmup and its neighbours).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace distill {

class Schedule {
 public:
  // `type`: cosine, linear, constant (which has no warm-up, as in transformers) or constant_with_warmup. Warm-up takes
  // ceil(total_steps * warmup_ratio) steps. InvalidArgument: another type.
  [[nodiscard]] static absl::StatusOr<Schedule> Create(const std::string& type, double learning_rate,
                                                       double warmup_ratio, int64_t total_steps);

  // For the update of step `step`, counted from 1. The first step of a warm-up has rate 0, as in transformers.
  double LearningRate(int64_t step) const;

 private:
  enum class Kind { kCosine, kLinear, kConstant, kConstantWithWarmup };
  Schedule() = default;

  Kind kind_ = Kind::kCosine;
  double learning_rate_ = 0;
  int64_t warmup_steps_ = 0;
  int64_t total_steps_ = 1;
};

}  // namespace distill
