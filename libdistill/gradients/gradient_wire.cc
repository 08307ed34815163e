#include "libdistill/gradients/gradient_wire.h"

#include <algorithm>
#include <vector>

#include "libdistill/comm/reduce.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/device_bucket.h"
#include "libdistill/gradients/gradient_blocks.h"
#include "libdistill/gradients/tensor_collectives.h"

namespace distill {

int64_t GradientWire::RoundedElements(const ShardPlan& plan) {
  int64_t largest = 0;
  for (size_t b = 0; b < plan.num_buckets(); ++b) largest = std::max(largest, plan.padded(b));
  return largest;
}

absl::Status GradientWire::Prepare(Communicator& comm, c10::Device device, const ShardPlan& plan) {
  if (!bfloat16_ || comm.world_size() == 1) return absl::OkStatus();
  const int64_t largest = RoundedElements(plan);
  if (rounded_.defined() && rounded_.numel() >= largest) return absl::OkStatus();
  rounded_ = torch::Tensor();
  DISTILL_ASSIGN_OR_RETURN(rounded_, AllocateAnyway(comm, largest, torch::kBFloat16, device));
  return absl::OkStatus();
}

absl::Status GradientWire::Sum(Communicator& comm, GradientBucket& bucket, bool adds) {
  const torch::NoGradGuard no_grad;
  return bucket.values.is_cpu() ? SumOnHost(comm, bucket, adds) : SumOnDevice(comm, bucket, adds);
}

// Without torch's kernels, each of which would give this thread a pool of threads of its own.
absl::Status GradientWire::SumOnHost(Communicator& comm, GradientBucket& bucket, bool adds) {
  auto* values = static_cast<float*>(bucket.values.data_ptr());
  const int64_t count = bucket.values.numel();
  std::vector<uint8_t> marks;  // empty: all values travel
  if (bucket.has_embedding && comm.world_size() > 1) {
    marks = MarkBlocks(values, count);
    DISTILL_RETURN_IF_ERROR(
        comm.AllReduce(marks.data(), marks.data(), static_cast<int64_t>(marks.size()), DType::kUInt8, ReduceOp::kMax));
    if (!WorthPacking(marks)) marks.clear();
  }
  const bool is_sharded = bucket.is_sharded();
  bucket.summed = marks.empty() ? count : PackBlocks(values, count, marks);
  if (is_sharded && marks.empty()) {
    DISTILL_RETURN_IF_ERROR(SumSlices(comm, bucket));
  } else if (bucket.summed > 0) {
    DISTILL_RETURN_IF_ERROR(SumValues(comm, values, bucket.summed));
  }
  if (!is_sharded) bucket.sum_of_squares = SumOfSquares(values, bucket.summed);
  if (!marks.empty()) SpreadBlocks(values, count, marks);
  if (!is_sharded) return absl::OkStatus();

  auto* mine = static_cast<float*>(bucket.mine.data_ptr());
  const float* summed = values + bucket.part.begin;
  if (adds) {
    for (int64_t i = 0; i < bucket.part.count; ++i) mine[i] += summed[i];
  } else if (mine != summed) {
    std::copy(summed, summed + bucket.part.count, mine);
  }
  return ShareSquares(comm, bucket, SumOfSquares(mine, bucket.part.count));
}

// Ranks decide together, so each must know of values that are not finite in the others' slices.
absl::Status GradientWire::ShareSquares(Communicator& comm, GradientBucket& bucket, double mine) {
  bucket.sum_of_squares = mine;
  return comm.AllReduce(&bucket.sum_of_squares, &bucket.sum_of_squares, 1, DType::kFloat64, ReduceOp::kSum);
}

absl::Status GradientWire::SumValues(Communicator& comm, float* values, int64_t count) {
  if (comm.world_size() == 1) return absl::OkStatus();
  if (!bfloat16_) return comm.AllReduce(values, values, count, DType::kFloat32, ReduceOp::kSum);
  void* rounded = rounded_.data_ptr();
  NarrowFromFloat(values, rounded, count, DType::kBFloat16);
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(rounded, rounded, count, DType::kBFloat16, ReduceOp::kSum));
  WidenToFloat(rounded, values, count, DType::kBFloat16);
  return absl::OkStatus();
}

absl::Status GradientWire::SumSlices(Communicator& comm, GradientBucket& bucket) {
  auto* values = static_cast<float*>(bucket.padded.data_ptr());
  const int64_t padded = bucket.padded.numel(), slice = padded / comm.world_size(), begin = comm.rank() * slice;
  std::fill(values + bucket.values.numel(), values + padded, 0.0f);
  if (!bfloat16_) return comm.ReduceScatter(values, values + begin, slice, DType::kFloat32, ReduceOp::kSum);
  auto* rounded = static_cast<uint16_t*>(rounded_.data_ptr());
  NarrowFromFloat(values, rounded, padded, DType::kBFloat16);
  DISTILL_RETURN_IF_ERROR(comm.ReduceScatter(rounded, rounded + begin, slice, DType::kBFloat16, ReduceOp::kSum));
  WidenToFloat(rounded + begin, values + begin, slice, DType::kBFloat16);
  return absl::OkStatus();
}

absl::Status GradientWire::SumOnDevice(Communicator& comm, GradientBucket& bucket, bool adds) {
  DISTILL_ASSIGN_OR_RETURN(const double squares, SumDeviceBucket(comm, bucket, adds, rounded_, squares_));
  bucket.summed = bucket.values.numel();
  if (bucket.is_sharded()) return ShareSquares(comm, bucket, squares);
  bucket.sum_of_squares = squares;
  return absl::OkStatus();
}

}  // namespace distill
