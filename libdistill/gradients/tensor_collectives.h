// Collectives on tensors: device memory goes to backends that take it, and through host memory for the others.
#pragma once

#include <functional>
#include <memory>

#include <torch/types.h>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {

// What `body`, a part of a call on a thread of its own, returns; where it throws instead, the communicator is aborted
// with that error: the other ranks must not wait for what never comes.
[[nodiscard]] absl::Status OrAbort(Communicator& comm, absl::FunctionRef<absl::Status()> body);

// A call for another thread: `body`, and on a GPU behind what the device's current stream holds now, beside what comes
// there later, and done when the call returns. OrAbort, also where the GPU fails. `stream`: of the device, where `body`
// works; the same one in all calls of a communicator, and no other communicator's.
std::function<absl::Status(Communicator&)> BehindStream(std::shared_ptr<const HeldStream> stream,
                                                        std::function<absl::Status(Communicator&)> body);

// Sums a tensor over all ranks, in place. Every rank must call it; blocks. InvalidArgument: a type that collectives do
// not add.
[[nodiscard]] absl::Status AllReduceSum(Communicator& comm, torch::Tensor tensor);

// Both take `padded`, flat, one slice of padded.numel() / world_size() elements for each rank, and work in place. Every
// rank must call them; they block.
// This rank's slice becomes the sum over ranks; the others' hold nothing of use afterwards.
[[nodiscard]] absl::Status ReduceScatterSum(Communicator& comm, torch::Tensor padded);
// Every rank's slice goes to all.
[[nodiscard]] absl::Status AllGatherSlices(Communicator& comm, torch::Tensor padded);

// Rank 0's values of a tensor of any type, on every rank. Every rank must call it; blocks.
[[nodiscard]] absl::Status BroadcastFromRank0(Communicator& comm, torch::Tensor tensor);

}  // namespace distill
