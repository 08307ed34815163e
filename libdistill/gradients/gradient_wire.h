// How one bucket of gradients is summed over ranks; runs on the communication thread.
#pragma once

#include <cstdint>

#include <torch/types.h>

#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/gradients/device_squares.h"
#include "libdistill/gradients/gradient_buckets.h"

namespace distill {

class GradientWire {
 public:
  // With `bfloat16` the values are rounded to it for the way.
  explicit GradientWire(bool bfloat16) : bfloat16_(bfloat16) {}

  // Elements in bfloat16 that gradients are rounded to: the plan's largest bucket.
  static int64_t RoundedElements(const ShardPlan& plan);
  // Before the first Sum, and when buckets change: makes room for any of the plan's, which are on `device`. Every rank
  // must call it, with the same plan.
  [[nodiscard]] absl::Status Prepare(Communicator& comm, c10::Device device, const ShardPlan& plan);
  // Sums the bucket over ranks, in place, then its squares; of a sharded one this rank's slice, which goes to `mine`
  // where that is memory of its own, added to what is there if `adds`. Every rank must call it; blocks. Throws
  // c10::Error, and then this rank has not taken part.
  [[nodiscard]] absl::Status Sum(Communicator& comm, GradientBucket& bucket, bool adds);
  // Sums other values, of host memory, in place; no more of them than RoundedElements. Every rank must call it; blocks.
  [[nodiscard]] absl::Status SumValues(Communicator& comm, float* values, int64_t count);

 private:
  // Also sum the squares.
  absl::Status SumOnHost(Communicator& comm, GradientBucket& bucket, bool adds);
  absl::Status SumOnDevice(Communicator& comm, GradientBucket& bucket, bool adds);
  absl::Status SumSlices(Communicator& comm, GradientBucket& bucket);
  static absl::Status ShareSquares(Communicator& comm, GradientBucket& bucket, double mine);

  const bool bfloat16_;
  torch::Tensor rounded_;  // bfloat16, where the buckets are; kept, and undefined where nothing is rounded
  DeviceSquares squares_;
};

}  // namespace distill
