// What a module's parts say of blocks: which weights each has, and whether they are here.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/nn/module.h>

#include "absl/status/status.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/nn/weight_gate.h"

namespace distill {

// GatedModel::LoadBlocks of the module and of those in it. Throws.
void LoadBlocks(torch::nn::Module& module);

// Of each parameter, the model's block that it is of; -1: none.
std::vector<int64_t> BlocksOf(const GatedModel& model, const std::vector<TrainedParameter>& parameters);

// FailedPrecondition: the module, or one within it, has sharded weights, by ShardFrozen or by a Fit that
// failed or was to leave them so (TrainerOptions::whole_after_fit).
[[nodiscard]] absl::Status RequireWhole(const torch::nn::Module& module);

}  // namespace distill
