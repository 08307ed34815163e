// Collectives on tensors: device memory goes to backends that take it, and through host memory for the others.
#pragma once

#include <torch/types.h>

#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"

namespace distill {

// Sums a tensor over all ranks, in place. Every rank must call it; blocks. InvalidArgument: a type that collectives do
// not add.
[[nodiscard]] absl::Status AllReduceSum(Communicator& comm, torch::Tensor tensor);

// Rank 0's values of a tensor of any type, on every rank. Every rank must call it; blocks.
[[nodiscard]] absl::Status BroadcastFromRank0(Communicator& comm, torch::Tensor tensor);

}  // namespace distill
