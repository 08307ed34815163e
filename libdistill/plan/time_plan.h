// How long a step of a planned run takes, and what the run costs: floating-point operations out of shapes, over what
// the machine computes in a second.
//
//   const StepFlops flops = FlopsOfStep(task);
//   DISTILL_ASSIGN_OR_RETURN(std::string text, DescribeCost({.memory = task, .steps = 150000}, flags, job));
//
// A step counts 2 operations a weight, token and product: forward, twice as many backward, once more forward where
// activations are computed again; of a teacher forward alone (planned_model.h). Of what is frozen a backward pass takes
// no weight's gradient, and below what is trained there is none. Dividing by a GPU's peak gives a time
// that no run reaches. What it does reach is a share: 0.30 to 0.46 of large language models' runs that have been
// published (Chowdhery et al. 2022, "PaLM", section 4.1), hence 0.35 here; smaller models and short rows stay below it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/plan/instances.h"
#include "libdistill/plan/memory_plan.h"
#include "libdistill/plan/plan_flags.h"
#include "libdistill/plan/planned_job.h"

namespace distill {

struct StepFlops {
  double student = 0, teacher = 0;  // of one rank, in all micro-batches of a step
  double sum() const { return student + teacher; }
};
StepFlops FlopsOfStep(const MemoryPlanTask& task);

// What one GPU computes in a second at its peak, in this type; where it has no instructions for bfloat16, in float16.
double PeakFlops(const Instance& instance, torch::Dtype dtype);

struct TimeOfStep {
  double compute_seconds = 0;
  // For the gradients, between instances, beside the backward pass: each sends and receives them twice, but for its own
  // part.
  double network_seconds = 0;
  double seconds() const { return std::max(compute_seconds, network_seconds); }
};
TimeOfStep TimeOn(const Instance& instance, const MemoryPlanTask& task, double efficiency);

// How many instances the job takes, of whose ranks each has a GPU: at most ranks_per_host of them on one.
int64_t InstancesFor(const Instance& instance, const MemoryPlanTask& task);

// steps * seconds * dollars an hour / 3600.
double Dollars(int64_t steps, double seconds, double dollars_per_hour);

struct CostTask {
  MemoryPlanTask memory = {};                 // as it is planned here
  torch::Dtype gpu_dtype = torch::kBFloat16;  // in which it would work on GPUs, where it is planned for CPUs
  int64_t steps = 0;                          // 0: not known beforehand
};

// As text for people: what a step computes, its time, the hours and the price of all steps. On the job's instance, or
// where it has none on this machine's CPUs (whose rate of matrix products is measured, in a fifth of a second) and on
// each instance that there is. InvalidArgument: a list of instances that cannot be read.
[[nodiscard]] absl::StatusOr<std::string> DescribeCost(const CostTask& task, const PlanFlags& flags,
                                                       const PlannedJob& job);

}  // namespace distill
