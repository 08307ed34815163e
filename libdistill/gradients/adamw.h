// AdamW (Loshchilov, Hutter 2019, algorithm 2) over float32 master weights, as one sweep over the gradients' buckets
// (optim/adamw_sweep.h).
//
// Parameters in float32 are their own masters; others get a float32 master here, and are renewed from it by the same
// sweep. With a ShardPlan each rank keeps and updates the state of its parts alone (ZeRO 1).
//
//   optimizer.StartStep(learning_rate, divisor);
//   for (size_t b = 0; b < gradients.num_buckets(); ++b) optimizer.Update(gradients, b);   // or as they arrive
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <torch/types.h>

#include "libdistill/gradients/gradient_buckets.h"
#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/gradients/spread_tensor.h"
#include "libdistill/optim/adamw_sweep.h"
#include "libdistill/optim/parameter_groups.h"

namespace distill {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  ParameterGroups groups = {};  // of which TrainedParameter::group is an index; their weight_decay alone counts here
};

class AdamW {
 public:
  // While the parameters are float32: their values become the masters.
  AdamW(const std::vector<TrainedParameter>& parameters, const AdamWOptions& options);
  // Of the plan's parts of this rank, `shard`. `working`: what forward passes will use of each, renewed by updates,
  // flat; `masters`: their float32 values, or the same tensors.
  AdamW(const std::vector<TrainedParameter>& parameters, const AdamWOptions& options, const ShardPlan& plan, int shard,
        const std::vector<torch::Tensor>& working, const std::vector<torch::Tensor>& masters);

  // Elements in float32 that it allocates for a rank's part of a parameter that is used in `dtype`: the moments, and
  // the master, unless the parameter is that itself.
  static int64_t MomentElements(int64_t elements) { return 2 * elements; }
  static int64_t MasterElements(int64_t elements, torch::Dtype dtype) {
    return dtype == torch::kFloat32 ? 0 : elements;
  }

  // `rates`: of all, or of each group.
  // Gradients are divided by `divisor` (the step's tokens times what losses were multiplied by, over the clipping
  // factor) on the way.
  void StartStep(const LearningRates& rates, double divisor);
  // The parameters of one bucket, once a step each, in any order. Blocks on the CPU; on a GPU it is enqueued.
  void Update(const GradientBuckets& gradients, size_t bucket);

  // Everything that a resumed run needs, by name: "master.P", "exp_avg.P", "exp_avg_sq.P" for each parameter P. The
  // tensors share memory with the optimizer. The count of updates is saved apart, as steps().
  std::map<std::string, SpreadTensor> State() const;
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }
  // After the tensors of State() were written to: renews the working copies, or this rank's parts of them.
  void RenewWorkingCopies();

 private:
  struct Slot {
    TrainedParameter parameter;
    ShardPlan::Part part;                       // of the parameter's elements: what this rank updates
    std::vector<ShardPlan::Part> parts;         // of each rank; empty: this one has the whole
    torch::Tensor master, exp_avg, exp_avg_sq;  // float32, contiguous: of the parameter's shape, or [part.count]
    torch::Tensor part_in_use = {};             // of the parameter, flat; undefined: all of it

    const torch::Tensor& in_use() const { return part_in_use.defined() ? part_in_use : parameter.tensor; }
    // The parameter is no master, and the sweep can write it.
    bool has_working_copy() const;
    AdamWRun RunFor(const torch::Tensor& gradient, const AdamWOptions& options) const;
    SpreadTensor Spread(const torch::Tensor& tensor) const { return {tensor, parameter.tensor.sizes().vec(), parts}; }
  };

  AdamWOptions options_;
  std::vector<Slot> slots_;
  int64_t steps_ = 0;
  std::vector<AdamWFactors> factors_;  // of this step: of what is in no group, then of each
};

}  // namespace distill
