// One evaluation over all ranks: passes over held-out data, gathered into metrics that are the same on every rank.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/shard/sharded_models.h"
#include "libdistill/task/evaluator.h"

namespace distill {

struct EvaluationCut {
  std::function<bool()> is_wanted;
  bool was_made = false;
};

// The evaluator's metrics, without gradients and with the module in evaluation mode and rank 0's buffers. Predictions
// travel to rank 0 alone, which summarizes them. Every rank must call it; an error of any rank is returned on all.
// `cut`: Cancelled on every rank where one of them wanted it while there were passes left; the device's random state is
// then as before.
[[nodiscard]] absl::StatusOr<MetricValues> EvaluateOverRanks(Communicator& comm, torch::nn::Module& module,
                                                             const ShardedModels& models, c10::Device device,
                                                             Evaluator& evaluator, EvaluationCut* cut = nullptr);

}  // namespace distill
