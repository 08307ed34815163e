// AdamW (Loshchilov, Hutter 2019, algorithm 2) over float32 master weights.
//
// Parameters in float32 are their own masters; bfloat16 ones get a float32 master here, and are renewed from it by each
// update.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <torch/types.h>

#include "libdistill/train/gradient_buckets.h"
#include "libdistill/train/parameters.h"

namespace distill {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
};

class AdamW {
 public:
  AdamW(const std::vector<TrainedParameter>& parameters, const AdamWOptions& options);

  // One update. Gradients are divided by `divisor` (the step's tokens over the clipping factor) on the way.
  void Step(const GradientBuckets& gradients, double learning_rate, double divisor);

  // Everything that a resumed run needs, by name: "master.P", "exp_avg.P", "exp_avg_sq.P" for each parameter P. The
  // tensors share memory with the optimizer. The count of updates is saved apart, as steps().
  std::map<std::string, torch::Tensor> State() const;
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }
  // After the tensors of State() were written to: renews the working copies.
  void RenewWorkingCopies();

 private:
  struct Slot {
    TrainedParameter parameter;
    torch::Tensor master, exp_avg, exp_avg_sq;  // float32, of the parameter's shape
  };

  AdamWOptions options_;
  std::vector<Slot> slots_;
  int64_t steps_ = 0;
};

}  // namespace distill
