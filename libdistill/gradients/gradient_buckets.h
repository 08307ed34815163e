// The memory of gradients: float32 buckets, each one flat tensor with the gradients of whole parameters one after the
// other, in memory of Communicator::Allocate: on the CPU what it uses without a copy, on a GPU NCCL's own.
//
// With a ShardPlan of several shards each rank keeps the sums of its slice alone (gradient_plan.h). In stage 1 (ZeRO's
// P_os) that slice is a part of the bucket, which stays. From stage 2 on (P_os+g) slices are in memory of their own, so
// that what a rank holds of a gradient is a share: buckets use a few slots in rotation, or, much larger ones, have
// memory only from the time when their last gradient came until they are summed.
#pragma once

#include <cstdint>
#include <vector>

#include <c10/core/Device.h>
#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/gradient_plan.h"
#include "libdistill/gradients/parameters.h"

namespace distill {

constexpr int64_t kEmbeddingRows = 16384;

struct GradientBucket {
  torch::Tensor values;            // [elements], float32; undefined while it has no memory
  torch::Tensor padded;            // [slice * shards]: `values` and what fills the last slices
  ShardPlan::Part part;            // of `values`: what this rank has the sums of in the end; all unless sharded
  torch::Tensor mine;              // [part.count]: where they go
  std::vector<size_t> parameters;  // by index, in the order of their gradients
  // A matrix of at least kEmbeddingRows rows is among them, an embedding then: its gradient may be zeros but for the
  // rows of a step's tokens (gradient_blocks.h).
  bool has_embedding = false;
  double sum_of_squares = 0;  // of all its values, once they are summed over ranks; the same on every rank
  int64_t summed = 0;         // elements that took part in that sum: all, or those of blocks with values
  bool has_place = true;      // or memory of its own, from GiveMemory to TakeMemory
  // The bucket before this one in the same memory, which must have been summed before this one is filled; -1: none.
  int64_t before = -1;

  bool is_sharded() const { return shards > 1; }
  int shards = 1;
};

class GradientBuckets {
 public:
  // Every rank must call it, with the same sizes and stage. Where the communicator has no memory for them (too small a
  // /dev/shm, say) the buckets are plain memory, which costs copies, and rank 0 warns. ResourceExhausted: not even
  // that. `stage`: 0, or 1 to 3 with a plan of world_size() shards.
  [[nodiscard]] static absl::StatusOr<GradientBuckets> Create(Communicator& comm,
                                                              const std::vector<TrainedParameter>& parameters,
                                                              const ShardPlan& plan, int stage);

  // Another plan over the same memory, in stage 0; what the buckets held is lost.
  void Lay(const ShardPlan& plan);

  // Of a bucket without a place, before it is filled; `gradient`, where the bucket has one parameter, becomes its
  // memory if it fits. And once it is summed.
  void GiveMemory(size_t b, const torch::Tensor& gradient);
  void TakeMemory(size_t b);
  // Gaps between gradients count in sums and norms: to be called before a bucket leaves that has taken turns.
  void ClearGaps(size_t b);

  // The 2-norm over all buckets, out of their sums of squares.
  double Norm() const;
  // The first parameter whose gradient is not finite in what this rank holds of it, by index; parameters().size() if
  // all are.
  size_t FirstNonFinite() const;

  // The gradient of parameter i (the order given at construction), float32, of its shape: a view into its bucket.
  const torch::Tensor& gradient(size_t i) const { return gradients_[i]; }
  // What this rank has the sums of, flat, in the order of its elements: all of it in stage 0.
  torch::Tensor OwnGradient(size_t i) const;
  const std::vector<TrainedParameter>& parameters() const { return parameters_; }
  const ShardPlan& plan() const { return plan_; }
  size_t num_buckets() const { return buckets_.size(); }
  const GradientBucket& bucket(size_t b) const { return buckets_[b]; }
  GradientBucket& bucket(size_t b) { return buckets_[b]; }

 private:
  GradientBuckets(std::vector<TrainedParameter> parameters, const ShardPlan& plan, int stage, int rank)
      : parameters_(std::move(parameters)), plan_(plan), stage_(stage), rank_(rank), gradients_(parameters_.size()) {}
  void Place(size_t b, const torch::Tensor& padded);

  std::vector<TrainedParameter> parameters_;
  ShardPlan plan_;
  int stage_, rank_;
  torch::Tensor memory_;  // float32: the buckets'
  torch::Tensor slices_;  // float32, from stage 2 on: this rank's slices
  std::vector<GradientBucket> buckets_;
  std::vector<torch::Tensor> gradients_;  // views into the buckets
};

// What GradientBuckets allocates, in float32 elements.
struct GradientSizes {
  int64_t buckets = 0;  // by Communicator::Allocate: that hold any plan's in stages 0 and 1, slots from stage 2 on
  int64_t slices = 0;   // from stage 2 on: this rank's
};
GradientSizes SizesOfGradients(const std::vector<int64_t>& elements, const ShardPlan& plan, int stage);
// Elements that GiveMemory allocates, for a bucket without a slot of parameters in `dtype`: none where the gradient
// that autograd makes can be the bucket's memory.
int64_t SizeOfOwnMemory(const ShardPlan& plan, size_t b, torch::Dtype dtype);

// A flat tensor in memory of comm.Allocate, which lives as long as the tensor; in ordinary memory where there is not
// that much, or where the communicator does not take memory of this device, on all ranks alike. Every rank must call
// it, with the same number of bytes.
[[nodiscard]] absl::StatusOr<torch::Tensor> AllocateAnyway(Communicator& comm, int64_t elements, torch::Dtype dtype,
                                                           c10::Device device);

}  // namespace distill
