// How the values of parameters come into the shares of ShardedBlocks, out of memory or from where they wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <c10/core/StorageImpl.h>
#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/comm/async.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/nn/weight_gate.h"

namespace distill {

struct ShardedBlocksOptions {
  torch::Dtype dtype = torch::kFloat32;  // of the weights from now on
  c10::Device device = torch::kCPU;      // where they are kept and gathered
  // Of parameters without memory: rank 0 reads one after the other and sends them to the others, so that a rank has
  // its shares and one parameter. Null: all have memory.
  BlockSource source = nullptr;
  // Is given this rank's part of a parameter, flat, as it was before.
  std::function<void(size_t parameter, const torch::Tensor& part)> also = nullptr;
};

struct ShardedBlock {
  struct Weight {
    torch::Tensor parameter;
    c10::intrusive_ptr<c10::StorageImpl> away;  // its storage while the block is away
  };
  std::vector<size_t> buckets;                   // of the plan
  std::vector<int64_t> begin;                    // of each, in a place
  int64_t elements = 0;                          // of a place
  c10::intrusive_ptr<c10::StorageImpl> storage;  // of the parameters, while they are here
  std::vector<Weight> weights;
  std::optional<AsyncCall> gather;  // that has begun
  size_t place = 0;                 // of that gather
  bool is_here = false;
};

struct ShardedValues {
  std::vector<torch::Tensor> shares;  // of each bucket: this rank's slice; undefined for one of no block
  std::vector<torch::Tensor> parts;   // views of them, of each parameter
};

// Makes the parameters of `blocks`, which know their buckets, views of their block's storage, without memory; block by
// block, so that no more than one is there twice. Every rank must call it; blocks.
[[nodiscard]] absl::StatusOr<ShardedValues> TakeValues(Communicator& comm, const ShardPlan& plan,
                                                       const ShardedBlocksOptions& options,
                                                       const std::vector<TrainedParameter>& parameters,
                                                       std::vector<ShardedBlock>& blocks);

}  // namespace distill
