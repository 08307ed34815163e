// What a module holds besides trained parameters: buffers (running statistics, counters), and how all of it is shared
// with the other ranks and saved.
#pragma once

#include <map>
#include <string>

#include <torch/nn/module.h>

#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"

namespace distill {

// InvalidArgument names a buffer of a type that no checkpoint holds.
[[nodiscard]] absl::Status CheckBuffers(const torch::nn::Module& module);

// Rank 0's values on every rank. Every rank must call them; they block.
[[nodiscard]] absl::Status BroadcastParameters(Communicator& comm, const torch::nn::Module& module);
[[nodiscard]] absl::Status BroadcastBuffers(Communicator& comm, const torch::nn::Module& module);

// The buffers as "buffer.NAME", sharing memory with the module.
std::map<std::string, torch::Tensor> BufferState(const torch::nn::Module& module);

// FOLDER/model.safetensors: parameters and buffers under their names, in their types (bool as uint8).
[[nodiscard]] absl::Status WriteWeights(const torch::nn::Module& module, const std::string& folder);

// A host copy of a tensor in the type in which files hold it.
torch::Tensor ToSaved(const torch::Tensor& tensor);

}  // namespace distill
