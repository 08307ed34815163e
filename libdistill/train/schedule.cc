#include "libdistill/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"

namespace distill {

absl::StatusOr<Schedule> Schedule::Create(const std::string& type, double learning_rate, double warmup_ratio,
                                          int64_t total_steps) {
  Schedule schedule;
  if (type == "cosine") {
    schedule.kind_ = Kind::kCosine;
  } else if (type == "linear") {
    schedule.kind_ = Kind::kLinear;
  } else if (type == "constant") {
    schedule.kind_ = Kind::kConstant;
  } else if (type == "constant_with_warmup") {
    schedule.kind_ = Kind::kConstantWithWarmup;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("lr_scheduler_type: '", type, "' is none of cosine, linear, constant, constant_with_warmup"));
  }
  schedule.learning_rate_ = learning_rate;
  schedule.total_steps_ = std::max<int64_t>(1, total_steps);
  schedule.warmup_steps_ = static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * warmup_ratio));
  return schedule;
}

double Schedule::LearningRate(int64_t step) const {
  if (kind_ == Kind::kConstant) return learning_rate_;
  const double done = static_cast<double>(step - 1), warmup = static_cast<double>(warmup_steps_);
  if (done < warmup) return learning_rate_ * done / std::max(1.0, warmup);
  const double rest = std::max(1.0, static_cast<double>(total_steps_) - warmup);
  switch (kind_) {
    case Kind::kCosine: {
      const double cosine = std::cos(std::numbers::pi * (done - warmup) / rest);
      return learning_rate_ * std::max(0.0, 0.5 * (1.0 + cosine));
    }
    case Kind::kLinear:
      return learning_rate_ * std::max(0.0, (static_cast<double>(total_steps_) - done) / rest);
    default:
      return learning_rate_;
  }
}

}  // namespace distill
