// Parameters in the layout of their gradients' buckets, so that each rank can renew its slices and an all-gather brings
// the others' (ZeRO 1 and 2, and what is of no block in 3). Parameters stay what they were to the model: their tensors
// become views. Those of a model's blocks can be away but while the block runs (ZeRO 3, shard/sharded_blocks.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/gradients/parameters.h"
#include "libdistill/shard/sharded_blocks.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {

class FlatParameters {
 public:
  // Elements that it allocates itself, those of blocks' parameters apart.
  static int64_t Elements(const ShardPlan& plan, const std::vector<int64_t>& block_of);
  // Moves the parameters' values, which are of one type, into memory of comm.Allocate in `dtype`, and makes the
  // parameters views into it; they keep it alive. `block_of`, `blocks`, `of_blocks`: as ShardedBlocks wants them;
  // empty: no parameter is of a block. Every rank must call it, with the same parameters and plan. InvalidArgument:
  // parameters of several types.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FlatParameters>> Create(
      Communicator& comm, const std::vector<TrainedParameter>& parameters, const ShardPlan& plan,
      const std::vector<int64_t>& block_of, size_t blocks, const ShardedBlocks::Options& options);

  // This rank's part of a parameter's elements (ShardPlan::OfParameter), flat: to be renewed.
  const torch::Tensor& part(size_t parameter) const { return parts_[parameter]; }
  // A call that brings the other ranks' slices of a bucket, once this rank's was written by what the current stream of
  // its device holds now; when it has ended the values are there. Nothing where the bucket is a block's, whose slices
  // come when it runs. For AsyncCalls::Run, or to be called. Every rank must make it.
  std::function<absl::Status(Communicator&)> GatherCall(size_t bucket) const;
  // All buckets' at once, on this thread.
  [[nodiscard]] absl::Status GatherAll(Communicator& comm) const;
  // Null where no parameter is of a block.
  const std::shared_ptr<ShardedBlocks>& blocks() const { return blocks_; }

 private:
  absl::Status Flatten(Communicator& comm, const std::vector<TrainedParameter>& parameters, const ShardPlan& plan,
                       const std::vector<bool>& in_block, torch::Dtype dtype, c10::Device device);

  std::shared_ptr<const HeldStream> stream_;  // of GatherCall
  std::vector<torch::Tensor> buckets_;        // padded; undefined where a block has them
  std::vector<torch::Tensor> parts_;
  std::shared_ptr<ShardedBlocks> blocks_;
};

}  // namespace distill
