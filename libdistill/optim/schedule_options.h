// Which shape the learning rate has over a run, by the names of transformers (optimization.py, get_scheduler).
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "libdistill/core/describe.h"

namespace distill {

enum class SchedulerType {
  kLinear,
  kCosine,
  kCosineWithRestarts,
  kPolynomial,
  kConstant,  // without a warm-up, as in transformers
  kConstantWithWarmup,
  kInverseSqrt,
  kCosineWithMinLr,
  kCosineWarmupWithMinLr,
  kWarmupStableDecay
};
constexpr EnumNames<SchedulerType, 10> NamesOf(SchedulerType) {
  return {{{"cosine", SchedulerType::kCosine},
           {"linear", SchedulerType::kLinear},
           {"constant", SchedulerType::kConstant},
           {"constant_with_warmup", SchedulerType::kConstantWithWarmup},
           {"polynomial", SchedulerType::kPolynomial},
           {"inverse_sqrt", SchedulerType::kInverseSqrt},
           {"cosine_with_restarts", SchedulerType::kCosineWithRestarts},
           {"cosine_with_min_lr", SchedulerType::kCosineWithMinLr},
           {"cosine_warmup_with_min_lr", SchedulerType::kCosineWarmupWithMinLr},
           {"warmup_stable_decay", SchedulerType::kWarmupStableDecay}}};
}

// How warmup_stable_decay rises and falls.
enum class RampType { kLinear, kCosine, kOneMinusSqrt };
constexpr EnumNames<RampType, 3> NamesOf(RampType) {
  return {{{"linear", RampType::kLinear}, {"cosine", RampType::kCosine}, {"1-sqrt", RampType::kOneMinusSqrt}}};
}

// What single shapes can be told; what is not set is as transformers has it.
struct ScheduleShape {
  std::optional<double> num_cycles = {};         // waves of the cosine; 1/2: one way down. cosine_with_restarts: 1
  std::optional<double> min_lr = {};             // the lowest rate
  std::optional<double> min_lr_rate = {};        // the same, as a share of learning_rate
  std::optional<double> min_lr_ratio = {};       // the same, of warmup_stable_decay; 0
  std::optional<double> warmup_lr_rate = {};     // the first rate's share of learning_rate
  std::optional<double> lr_end = {};             // of polynomial; 1e-7
  std::optional<double> power = {};              // of polynomial; 1
  std::optional<int64_t> timescale = {};         // of inverse_sqrt; the warm-up's steps, or 10000
  std::optional<int64_t> num_stable_steps = {};  // all that warm-up and decay leave
  std::optional<int64_t> num_decay_steps = {};
  std::optional<RampType> warmup_type = {};  // linear
  std::optional<RampType> decay_type = {};   // cosine
};

// InvalidArgument: what this type does not take, or lacks.
[[nodiscard]] absl::Status CheckSchedule(SchedulerType type, const ScheduleShape& shape, double learning_rate);

template <class V>
void Describe(V& v, ScheduleShape& o) {
  v.Field("lr_scheduler_kwargs.num_cycles", o.num_cycles, Above(0), "waves of the cosine; 0.5: one way down");
  v.Field("lr_scheduler_kwargs.min_lr", o.min_lr, AtLeast(0), "lowest rate of the types with min_lr");
  v.Field("lr_scheduler_kwargs.min_lr_rate", o.min_lr_rate, Within(0, 1), "the same, as a share of learning_rate");
  v.Field("lr_scheduler_kwargs.min_lr_ratio", o.min_lr_ratio, Within(0, 1),
          "lowest rate of warmup_stable_decay, as a share of learning_rate");
  v.Field("lr_scheduler_kwargs.warmup_lr_rate", o.warmup_lr_rate, Within(0, 1),
          "first rate of cosine_warmup_with_min_lr, as a share of learning_rate");
  v.Field("lr_scheduler_kwargs.lr_end", o.lr_end, AtLeast(0), "last rate of polynomial");
  v.Field("lr_scheduler_kwargs.power", o.power, AtLeast(0), "of polynomial; 1: a straight line");
  v.Field("lr_scheduler_kwargs.timescale", o.timescale, AtLeast(1), "steps after which inverse_sqrt's rate has halved");
  v.Field("lr_scheduler_kwargs.num_stable_steps", o.num_stable_steps, AtLeast(0),
          "steps of warmup_stable_decay at the highest rate");
  v.Field("lr_scheduler_kwargs.num_decay_steps", o.num_decay_steps, AtLeast(0),
          "steps of warmup_stable_decay after that");
  v.Field("lr_scheduler_kwargs.warmup_type", o.warmup_type, "how warmup_stable_decay rises");
  v.Field("lr_scheduler_kwargs.decay_type", o.decay_type, "how warmup_stable_decay falls");
}

}  // namespace distill
