// What a reducer may be asked for, and which gradients travel together in its buckets: what GradientReducer lays, and
// what plan/ counts.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/gradients/reducer_options.h"
#include "libdistill/gradients/shard_plan.h"

namespace distill {

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
