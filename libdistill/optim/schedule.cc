#include "libdistill/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/description.h"

namespace distill {
namespace {

constexpr double kDefaultTimescale = 10000;  // transformers', where there is no warm-up

std::vector<const char*> TakenBy(SchedulerType type) {
  switch (type) {
    case SchedulerType::kCosine:
    case SchedulerType::kCosineWithRestarts:
      return {"num_cycles"};
    case SchedulerType::kPolynomial:
      return {"lr_end", "power"};
    case SchedulerType::kInverseSqrt:
      return {"timescale"};
    case SchedulerType::kCosineWithMinLr:
      return {"num_cycles", "min_lr", "min_lr_rate"};
    case SchedulerType::kCosineWarmupWithMinLr:
      return {"num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate"};
    case SchedulerType::kWarmupStableDecay:
      return {"num_cycles", "min_lr_ratio", "num_stable_steps", "num_decay_steps", "warmup_type", "decay_type"};
    case SchedulerType::kLinear:
    case SchedulerType::kConstant:
    case SchedulerType::kConstantWithWarmup:
      break;
  }
  return {};
}

bool HasMinLr(SchedulerType type) {
  return type == SchedulerType::kCosineWithMinLr || type == SchedulerType::kCosineWarmupWithMinLr;
}

double Ramp(RampType type, double progress) {
  switch (type) {
    case RampType::kLinear:
      return progress;
    case RampType::kCosine:
      return 0.5 * (1.0 - std::cos(std::numbers::pi * progress));
    case RampType::kOneMinusSqrt:
      break;
  }
  return 1.0 - std::sqrt(1.0 - progress);
}

}  // namespace

absl::Status CheckSchedule(SchedulerType type, const ScheduleShape& shape, double learning_rate) {
  const std::string name = FieldText(type);
  const std::vector<const char*> taken = TakenBy(type);
  for (const auto& [field, value] : ValuesOf(shape)) {
    const std::string key = field.substr(field.find('.') + 1);
    if (value.empty() || std::find(taken.begin(), taken.end(), key) != taken.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": lr_scheduler_type ", name, " does not use it; it takes ",
                     taken.empty() ? "no lr_scheduler_kwargs" : absl::StrJoin(taken, ", ")));
  }
  if (HasMinLr(type) && shape.min_lr.has_value() == shape.min_lr_rate.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lr_scheduler_type ", name, " needs one of lr_scheduler_kwargs.min_lr and .min_lr_rate"));
  }
  if (shape.min_lr.value_or(0) > learning_rate) {
    return absl::InvalidArgumentError("lr_scheduler_kwargs.min_lr is above learning_rate");
  }
  if (type == SchedulerType::kWarmupStableDecay && !shape.num_decay_steps.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lr_scheduler_type ", name, " needs lr_scheduler_kwargs.num_decay_steps"));
  }
  if (type == SchedulerType::kPolynomial && !(learning_rate > shape.lr_end.value_or(1e-7))) {
    return absl::InvalidArgumentError("lr_scheduler_kwargs.lr_end must be below learning_rate");
  }
  return absl::OkStatus();
}

Schedule::Schedule(const Options& options, int64_t total_steps)
    : type_(options.type), shape_(options.shape), learning_rate_(options.learning_rate) {
  const double all = static_cast<double>(total_steps);
  const double share = options.warmup_steps > 0 ? options.warmup_steps : options.warmup_ratio;
  warmup_ = options.warmup_steps >= 1 ? std::floor(options.warmup_steps) : std::ceil(all * share);
  total_ = std::max(1.0, all);
  if (HasMinLr(type_)) lowest_ = shape_.min_lr_rate.value_or(0);
  if (HasMinLr(type_) && shape_.min_lr && learning_rate_ > 0) lowest_ = *shape_.min_lr / learning_rate_;
  if (type_ == SchedulerType::kWarmupStableDecay) lowest_ = shape_.min_lr_ratio.value_or(0);
}

double Schedule::LearningRate(int64_t step) const {
  const double done = static_cast<double>(step - 1);
  if (type_ == SchedulerType::kConstant) return learning_rate_;
  if (done >= warmup_) return learning_rate_ * Share(done);
  if (type_ == SchedulerType::kCosineWarmupWithMinLr || type_ == SchedulerType::kWarmupStableDecay) {
    return learning_rate_ * WarmupShare(done);
  }
  return learning_rate_ * done / std::max(1.0, warmup_);
}

double Schedule::WarmupShare(double done) const {
  if (type_ == SchedulerType::kWarmupStableDecay) {
    const double rise = Ramp(shape_.warmup_type.value_or(RampType::kLinear), done / std::max(1.0, warmup_));
    return rise * (1.0 - lowest_) + lowest_;
  }
  if (!shape_.warmup_lr_rate) return (done + 1.0) / std::max(1.0, warmup_);
  return *shape_.warmup_lr_rate + (1.0 - *shape_.warmup_lr_rate) * done / std::max(1.0, warmup_ - 1.0);
}

double Schedule::Cosine(double past, double rest, double cycles) const {
  const double wave = 0.5 * (1.0 + std::cos(std::numbers::pi * (2.0 * cycles) * past / rest));
  return std::max(0.0, wave * (1.0 - lowest_) + lowest_);
}

double Schedule::Share(double done) const {
  const double rest = std::max(1.0, total_ - warmup_), past = done - warmup_;
  switch (type_) {
    case SchedulerType::kLinear:
      return std::max(0.0, (total_ - done) / rest);
    case SchedulerType::kCosine:
    case SchedulerType::kCosineWithMinLr:
      return Cosine(past, rest, shape_.num_cycles.value_or(0.5));
    case SchedulerType::kCosineWarmupWithMinLr:
      return Cosine(past + 1.0, rest, shape_.num_cycles.value_or(0.5));
    case SchedulerType::kCosineWithRestarts: {
      if (past >= rest) return 0.0;
      return Cosine(std::fmod(shape_.num_cycles.value_or(1.0) * past / rest, 1.0), 1.0, 0.5);
    }
    case SchedulerType::kPolynomial: {
      const double end = shape_.lr_end.value_or(1e-7);
      if (done > total_) return end / learning_rate_;
      const double left = std::pow(1.0 - past / rest, shape_.power.value_or(1.0));
      return ((learning_rate_ - end) * left + end) / learning_rate_;
    }
    case SchedulerType::kInverseSqrt: {
      const double otherwise = warmup_ > 0 ? warmup_ : kDefaultTimescale;
      const double timescale = shape_.timescale ? static_cast<double>(*shape_.timescale) : otherwise;
      return 1.0 / std::sqrt((past + timescale) / timescale);
    }
    case SchedulerType::kWarmupStableDecay:
      return StableDecayShare(done);
    case SchedulerType::kConstant:
    case SchedulerType::kConstantWithWarmup:
      break;
  }
  return 1.0;
}

double Schedule::StableDecayShare(double done) const {
  const double decay = static_cast<double>(*shape_.num_decay_steps);
  const double stable =
      shape_.num_stable_steps ? static_cast<double>(*shape_.num_stable_steps) : total_ - warmup_ - decay;
  const double past = done - warmup_ - stable;
  if (past < 0) return 1.0;
  if (past >= decay) return lowest_;
  const double progress = past / std::max(1.0, decay);
  const RampType type = shape_.decay_type.value_or(RampType::kCosine);
  if (type == RampType::kCosine) return Cosine(progress, 1.0, shape_.num_cycles.value_or(0.5));
  // transformers' "1-sqrt" is 1 - sqrt(progress) on the way down.
  const double left = type == RampType::kLinear ? 1.0 - progress : 1.0 - std::sqrt(progress);
  return std::max(0.0, left * (1.0 - lowest_) + lowest_);
}

}  // namespace distill
