// What a module holds: blocks, which may not be here, and besides trained parameters buffers (running statistics,
// counters); and how all of it is shared with the other ranks and saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/nn/weight_gate.h"

namespace distill {

// Of each parameter, the model's block that it is of; -1: none.
std::vector<int64_t> BlocksOf(const GatedModel& model, const std::vector<TrainedParameter>& parameters);

// FailedPrecondition: the module, or one within it, has sharded weights, by ShardFrozen or by a Fit that
// failed or was to leave them so (TrainerOptions::whole_after_fit).
[[nodiscard]] absl::Status RequireWhole(const torch::nn::Module& module);

// InvalidArgument names a buffer of a type that no checkpoint holds.
[[nodiscard]] absl::Status CheckBuffers(const torch::nn::Module& module);

// Rank 0's values on every rank; parameters without memory stay so. Every rank must call them; they block.
[[nodiscard]] absl::Status BroadcastParameters(Communicator& comm, const torch::nn::Module& module);
[[nodiscard]] absl::Status BroadcastBuffers(Communicator& comm, const torch::nn::Module& module);

// The values of a weight without memory, which rank 0 reads, written into `values` on the host, of its shape and type.
// Every rank must call it; blocks. Where rank 0 cannot read them the communicator is aborted.
[[nodiscard]] absl::Status ReadOnRank0(Communicator& comm, const BlockSource& source, const torch::Tensor& weight,
                                       const torch::Tensor& values);

// A hash of the values of parameters that require no gradients, as text in a uint8 tensor on the host; undefined where
// all do. A checkpoint keeps it in place of them.
torch::Tensor HashOfFrozen(const torch::nn::Module& module);

// FOLDER/model.safetensors: parameters and buffers under their names, in their types (bool as uint8).
[[nodiscard]] absl::Status WriteWeights(const torch::nn::Module& module, const std::string& folder);

}  // namespace distill
