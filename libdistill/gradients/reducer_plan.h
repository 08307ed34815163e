// What a reducer may be asked for, and which gradients travel together in its buckets: what GradientReducer lays, and
// what plan/ counts.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/gradients/compression.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/gradients/shard_plan.h"

namespace distill {

struct GradientReducerOptions {
  int64_t bucket_bytes = 25 << 20;
  GradientCompression compression = GradientCompression::kNone;
  // Of ZeRO (gradient_buckets.h): 0: every rank has all gradients; 1: each has the sums of its slices; 2: and keeps
  // nothing else; 3 as 2, for sharded parameters too. From 1 on the order of gradients is the reverse of
  // the parameters', and is not observed.
  int zero_stage = 0;
  // From stage 1 on: the group of each parameter, if buckets must not mix them (gradient_plan.h); empty: one group.
  std::vector<int64_t> groups = {};
  // The order() of the run that this one resumes: bits that depend on the plan then stay the same. Empty: to be
  // observed.
  std::vector<int64_t> order = {};
  // Whether BorrowSum may give memory: each loss that borrows goes to its backward pass, once, as it is. One that
  // was scaled or thrown away would spoil the sum.
  bool losses_are_final = false;
  // The parameter, [rows, width], of which AddRows takes a part of the gradient; none: -1. In stage 0 on CPUs:
  // elsewhere TakesRows says that it does not.
  int64_t rows_of = -1;
};

// InvalidArgument: options out of range, or that are not of these parameters.
[[nodiscard]] absl::Status CheckReducerOptions(const std::vector<TrainedParameter>& parameters,
                                               const GradientReducerOptions& options);
// The plan of a reducer in stage 0: in this order of parameters, or, where that is empty, in reverse.
ShardPlan PlanInOrder(const std::vector<TrainedParameter>& parameters, const std::vector<int64_t>& order,
                      int64_t bucket_bytes);
// The plan of a reducer from stage 1 on.
ShardPlan ShardedPlan(const std::vector<TrainedParameter>& parameters, int shards, int64_t bucket_bytes,
                      const std::vector<int64_t>& groups = {});

}  // namespace distill
