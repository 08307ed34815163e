#include "libdistill/train/gradient_wire.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <vector>

#include "libdistill/comm/agree.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/gradient_blocks.h"
#include "libdistill/train/sum_of_squares.h"
#include "libdistill/train/tensor_collectives.h"

namespace distill {

absl::Status GradientWire::Prepare(Communicator& comm, c10::Device device, int64_t largest) {
  if (!bfloat16_ || comm.world_size() == 1 || !device.is_cpu()) return absl::OkStatus();
  if (rounded_.defined() && rounded_.numel() >= largest) return absl::OkStatus();
  rounded_ = torch::Tensor();
  DISTILL_ASSIGN_OR_RETURN(rounded_, AllocateForCalls(comm, largest, torch::kBFloat16, device));
  return Agree(comm, CatchTorch([&] {
                 if (!rounded_.defined()) rounded_ = torch::empty({largest}, torch::kBFloat16);
                 return absl::OkStatus();
               }));
}

absl::Status GradientWire::Sum(Communicator& comm, GradientBucket& bucket, const c10::Event* ready) {
  const torch::NoGradGuard no_grad;
  if (ready == nullptr) return SumOnHost(comm, bucket);
  // A stream of its own, so that the backward pass goes on beside it.
  const c10::Device device = bucket.values.device();
  const c10::impl::VirtualGuardImpl streams(device.type());
  const c10::StreamGuard stream(streams.getStreamFromGlobalPool(device, /*isHighPriority=*/true));
  ready->block(stream.current_stream());
  DISTILL_RETURN_IF_ERROR(SumOnDevice(comm, bucket.values, bfloat16_));
  // Also waits until the stream is done.
  const double norm = at::linalg_vector_norm(bucket.values, 2, {}, false, torch::kFloat64).item<double>();
  bucket.sum_of_squares = norm * norm;
  bucket.summed = bucket.values.numel();
  return absl::OkStatus();
}

// Without torch's kernels, each of which would give this thread a pool of threads of its own.
absl::Status GradientWire::SumOnHost(Communicator& comm, GradientBucket& bucket) {
  auto* values = static_cast<float*>(bucket.values.data_ptr());
  const int64_t count = bucket.values.numel();
  std::vector<uint8_t> marks;  // empty: all values travel
  if (bucket.has_embedding && comm.world_size() > 1) {
    marks = MarkBlocks(values, count);
    DISTILL_RETURN_IF_ERROR(
        comm.AllReduce(marks.data(), marks.data(), static_cast<int64_t>(marks.size()), DType::kUInt8, ReduceOp::kMax));
    if (!WorthPacking(marks)) marks.clear();
  }
  bucket.summed = marks.empty() ? count : PackBlocks(values, count, marks);
  if (bucket.summed > 0) DISTILL_RETURN_IF_ERROR(SumValues(comm, values, bucket.summed));
  bucket.sum_of_squares = SumOfSquares(values, bucket.summed);
  if (!marks.empty()) SpreadBlocks(values, count, marks);
  return absl::OkStatus();
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

absl::Status GradientWire::SumOnDevice(Communicator& comm, torch::Tensor& values, bool bfloat16) {
  if (comm.world_size() == 1) return absl::OkStatus();
  if (!bfloat16) return AllReduceSum(comm, values);
  const torch::Tensor rounded = values.to(torch::kBFloat16);
  DISTILL_RETURN_IF_ERROR(AllReduceSum(comm, rounded));
  values.copy_(rounded);
  return absl::OkStatus();
}

}  // namespace distill
