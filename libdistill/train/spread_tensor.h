// Tensors of which each rank holds a part, as sharded optimizer state; for checkpoints, which hold them whole.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/train/shard_plan.h"

namespace distill {

struct SpreadTensor {
  torch::Tensor mine;                  // this rank's elements, one after the other; the whole where parts is empty
  std::vector<int64_t> shape;          // of the whole
  std::vector<ShardPlan::Part> parts;  // the elements of each rank; empty: every rank holds the whole

  // One that every rank holds.
  static SpreadTensor Whole(const torch::Tensor& tensor) { return {tensor, tensor.sizes().vec(), {}}; }
};

// Every rank must call these; they block.

// The whole on rank 0, in host memory where it is spread; undefined on the others.
[[nodiscard]] absl::StatusOr<torch::Tensor> GatherOnRank0(Communicator& comm, const SpreadTensor& tensor);
// Writes rank 0's `whole` (of the tensor's type; not looked at on other ranks) into all ranks' parts.
[[nodiscard]] absl::Status SpreadFromRank0(Communicator& comm, const torch::Tensor& whole, const SpreadTensor& tensor);

}  // namespace distill
