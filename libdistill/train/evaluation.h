// Means of a loss over a whole pass of held-out data.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/shard/sharded_models.h"
#include "libdistill/train/trainer.h"

namespace distill {

// "loss" and every sum of the callable, over the samples of all ranks, without gradients and with the module in
// evaluation mode and rank 0's buffers. Every rank must call it; an error of any rank is returned on all.
[[nodiscard]] absl::StatusOr<std::map<std::string, double>> MeansOverData(Communicator& comm, torch::nn::Module& module,
                                                                          const ShardedModels& models,
                                                                          DataSharder& sharder, const TokenLoss& loss);

}  // namespace distill
