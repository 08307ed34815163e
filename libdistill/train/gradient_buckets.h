// Gradients in contiguous float32 memory: filled by backward passes, summed over ranks bucket by bucket.
//
//   buckets.Zero();
//   for (micro-batch) { loss.backward(); buckets.Collect(); }
//   DISTILL_RETURN_IF_ERROR(buckets.AllReduce(comm));
//
// Buckets are filled in reverse order of the parameters, which is about the order in which backward finishes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/types.h>

#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/train/parameters.h"

namespace distill {

class GradientBuckets {
 public:
  // A bucket holds whole parameters and closes once it has `bucket_bytes` or more.
  GradientBuckets(const std::vector<TrainedParameter>& parameters, int64_t bucket_bytes);

  void Zero();
  // Takes what the last backward pass left. float32 gradients already lie in their bucket; bfloat16 ones are added, so
  // that accumulation over micro-batches rounds only once.
  void Collect();
  // Sums over all ranks. Every rank must call it; blocks.
  [[nodiscard]] absl::Status AllReduce(Communicator& comm);

  // 2-norm over everything; the same on every rank after AllReduce.
  double Norm() const;
  // The first parameter whose gradient is not finite; empty if all are.
  std::string FirstNonFinite() const;

  // The gradient of parameter i (the order given at construction), float32, of its shape.
  const torch::Tensor& gradient(size_t i) const { return gradients_[i]; }
  size_t num_buckets() const { return buckets_.size(); }

 private:
  std::vector<TrainedParameter> parameters_;
  std::vector<torch::Tensor> buckets_;    // [elements], float32
  std::vector<torch::Tensor> gradients_;  // views into the buckets
};

}  // namespace distill
