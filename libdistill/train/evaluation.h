// One evaluation over all ranks: passes over held-out data, gathered into metrics that are the same on every rank.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/shard/sharded_models.h"
#include "libdistill/task/evaluator.h"

namespace distill {

// The evaluator's metrics, without gradients and with the module in evaluation mode and rank 0's buffers. Predictions
// travel to rank 0 alone, which summarizes them. Every rank must call it; an error of any rank is returned on all.
// Cancelled on every rank: `is_cut` was true on one of them while there were passes left.
[[nodiscard]] absl::StatusOr<MetricValues> EvaluateOverRanks(Communicator& comm, torch::nn::Module& module,
                                                             const ShardedModels& models, c10::Device device,
                                                             Evaluator& evaluator,
                                                             const std::function<bool()>& is_cut = nullptr);

}  // namespace distill
