// Tensors of which each rank holds a part, as sharded optimizer state; for checkpoints, which hold them whole.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/store/safetensors.h"

namespace distill {

struct SpreadTensor {
  torch::Tensor mine;                  // this rank's elements, one after the other; the whole where parts is empty
  std::vector<int64_t> shape;          // of the whole
  std::vector<ShardPlan::Part> parts;  // the elements of each rank; empty: every rank holds the whole

  // One that every rank holds.
  static SpreadTensor Whole(const torch::Tensor& tensor) { return {tensor, tensor.sizes().vec(), {}}; }
};

// Every rank must call these; they block. What one rank fails at alone (memory) ends the communicator with its error.

// Hands all of it to `take` on rank 0, from the first element to the last, in the type in which files hold it: this
// rank's own part as it lies, the others' in pieces of at most 16 MiB, which is all the memory that it takes. The error
// of `take` is rank 0's alone; the rest of the tensor then still comes, to nobody.
[[nodiscard]] absl::Status PassToRank0(Communicator& comm, const SpreadTensor& tensor, ByteSink take);
// Writes rank 0's `whole` (of the same shape; not looked at on other ranks) into all ranks' parts, in pieces as well.
[[nodiscard]] absl::Status SpreadFromRank0(Communicator& comm, const TensorView& whole, const SpreadTensor& tensor);

}  // namespace distill
