// One bucket of gradients in a GPU's memory summed over ranks, by torch's kernels on the current stream. Nothing here
// allocates in proportion to the bucket: what torch's allocator keeps for one stream is of no use to another.
#pragma once

#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/device_squares.h"
#include "libdistill/gradients/gradient_buckets.h"

namespace distill {

// Sums the bucket in place; of a sharded one this rank's slice, which goes to `mine` where that is memory of its own,
// added to what is there if `adds`. `rounded`: bfloat16, at least as many elements as the bucket with its padding, to
// which values are rounded for the way; undefined: they travel as they are. Returns the sum of the squares of `mine`,
// once the stream is done. Every rank must call it; blocks. Throws c10::Error. Works on any device.
[[nodiscard]] absl::StatusOr<double> SumDeviceBucket(Communicator& comm, GradientBucket& bucket, bool adds,
                                                     const torch::Tensor& rounded, DeviceSquares& squares);

}  // namespace distill
