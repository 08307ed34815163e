#include "libdistill/gradients/device_bucket.h"

#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/tensor_collectives.h"

namespace distill {
namespace {

absl::Status SumOverRanks(Communicator& comm, const GradientBucket& bucket, const torch::Tensor& rounded) {
  if (comm.world_size() == 1) return absl::OkStatus();
  torch::Tensor values = bucket.is_sharded() ? bucket.padded : bucket.values;
  torch::Tensor travels = rounded.defined() ? rounded.narrow(0, 0, values.numel()) : values;
  if (rounded.defined()) travels.copy_(values);
  DISTILL_RETURN_IF_ERROR(bucket.is_sharded() ? ReduceScatterSum(comm, travels) : AllReduceSum(comm, travels));
  if (!rounded.defined()) return absl::OkStatus();
  if (bucket.is_sharded()) {  // the other slices hold nothing of use
    const int64_t slice = values.numel() / comm.world_size(), begin = comm.rank() * slice;
    values = values.narrow(0, begin, slice);
    travels = travels.narrow(0, begin, slice);
  }
  values.copy_(travels);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<double> SumDeviceBucket(Communicator& comm, GradientBucket& bucket, bool adds,
                                       const torch::Tensor& rounded, DeviceSquares& squares) {
  DISTILL_RETURN_IF_ERROR(SumOverRanks(comm, bucket, rounded));
  const torch::Tensor summed = bucket.values.narrow(0, bucket.part.begin, bucket.part.count);
  if (adds) {
    bucket.mine.add_(summed);
  } else if (bucket.mine.data_ptr() != summed.data_ptr()) {
    bucket.mine.copy_(summed);
  }
  return squares.Sum(bucket.mine);
}

}  // namespace distill
