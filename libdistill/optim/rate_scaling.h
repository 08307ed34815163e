// The learning rate for another global batch than the one for which it was found: with more ranks a step has more rows,
// and there are fewer steps.
//
//   DISTILL_ASSIGN_OR_RETURN(const ScaledRate scaled, ScaleLearningRate(options.rate_scaling, 5e-5, rows_of_a_step));
//   trainer.learning_rate = scaled.learning_rate;
//   LogInfo(scaled.text);   // learning rate 5e-5 x 8 = 4e-4, since the global batch is 256 and learning_rate is for 32
//
// Linear: Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 2.1; at its high rate training begins well only
// behind a warm-up (section 2.2). The square root keeps the noise of adaptive updates as it was (Malladi et al. 2022,
// "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms"), and so suits AdamW.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/core/describe.h"

namespace distill {

enum class RateScaling { kNone, kLinear, kSqrt };
constexpr EnumNames<RateScaling, 3> NamesOf(RateScaling) {
  return {{{"none", RateScaling::kNone}, {"linear", RateScaling::kLinear}, {"sqrt", RateScaling::kSqrt}}};
}

struct RateScalingOptions {
  RateScaling scaling = RateScaling::kNone;
  int64_t base_global_batch = 32;  // rows of the step that learning_rate is for
};

template <class V>
void Describe(V& v, RateScalingOptions& o) {
  v.Group("Training");
  v.Field("learning_rate_scaling", o.scaling,
          "how learning_rate follows the global batch: in proportion to it, or to its square root; with warm-up")
      .Alias("lr_scaling");
  v.Field("base_global_batch", o.base_global_batch, Within(1, int64_t{1} << 31),
          "of learning_rate_scaling: rows of the step that learning_rate is for")
      .Alias("base_batch_size");
}

struct ScaledRate {
  double learning_rate = 0;
  std::string text = "";  // for the log; empty where nothing is scaled
};

// `rows_of_a_step`: of all micro-batches and ranks; 0: not known, since lengths decide. InvalidArgument then, where
// anything is to be scaled. Warm-up and what lr_scheduler_kwargs gives as a rate of its own stay as they are.
[[nodiscard]] absl::StatusOr<ScaledRate> ScaleLearningRate(const RateScalingOptions& options, double learning_rate,
                                                           int64_t rows_of_a_step);

}  // namespace distill
