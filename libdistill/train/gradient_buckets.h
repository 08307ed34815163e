// The memory of gradients: float32 buckets, each one flat tensor with the gradients of whole parameters one after the
// other, in memory of Communicator::Allocate: on the CPU what it uses without a copy, on a GPU NCCL's own.
//
// An optimizer can sweep a bucket at once: bucket(b).values beside state that is laid out in the order of
// bucket(b).parameters. Lay changes that order; a training run does it once, before its second step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/train/gradient_plan.h"
#include "libdistill/train/parameters.h"

namespace distill {

constexpr int64_t kEmbeddingRows = 16384;

struct GradientBucket {
  torch::Tensor values;            // [elements], float32
  std::vector<size_t> parameters;  // by index, in the order of their gradients
  // A matrix of at least kEmbeddingRows rows is among them, an embedding then: its gradient may be zeros but for the
  // rows of a step's tokens (gradient_blocks.h).
  bool has_embedding = false;
  double sum_of_squares = 0;  // of `values`, once they are summed over ranks
  int64_t summed = 0;         // elements that took part in that sum: all, or those of blocks with values
};

class GradientBuckets {
 public:
  // Every rank must call it, with the same sizes. Where the communicator has no memory for them (too small a /dev/shm,
  // say) the buckets are plain memory, which costs copies, and rank 0 warns. ResourceExhausted: not even that.
  [[nodiscard]] static absl::StatusOr<GradientBuckets> Create(Communicator& comm,
                                                              const std::vector<TrainedParameter>& parameters,
                                                              const GradientPlan& plan);

  // Another plan over the same memory; what the buckets held is lost.
  void Lay(const GradientPlan& plan);

  // The 2-norm over all buckets, out of their sums of squares.
  double Norm() const;
  // The first parameter whose gradient is not finite; empty if all are.
  std::string FirstNonFinite() const;

  // The gradient of parameter i (the order given at construction), float32, of its shape: a view into its bucket.
  const torch::Tensor& gradient(size_t i) const { return gradients_[i]; }
  const std::vector<TrainedParameter>& parameters() const { return parameters_; }
  size_t num_buckets() const { return buckets_.size(); }
  const GradientBucket& bucket(size_t b) const { return buckets_[b]; }
  GradientBucket& bucket(size_t b) { return buckets_[b]; }

 private:
  GradientBuckets(std::vector<TrainedParameter> parameters, torch::Tensor memory)
      : parameters_(std::move(parameters)), memory_(std::move(memory)), gradients_(parameters_.size()) {}

  std::vector<TrainedParameter> parameters_;
  torch::Tensor memory_;  // float32
  std::vector<GradientBucket> buckets_;
  std::vector<torch::Tensor> gradients_;  // views into the buckets
};

// A flat tensor in memory of comm.Allocate, which lives as long as the tensor; undefined where there is not that much,
// or where the communicator does not take memory of this device, on all ranks alike. Every rank must call it, with the
// same number of bytes.
[[nodiscard]] absl::StatusOr<torch::Tensor> AllocateForCalls(Communicator& comm, int64_t elements, torch::Dtype dtype,
                                                             c10::Device device);

}  // namespace distill
