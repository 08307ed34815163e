// Parameters in the layout of their gradients' buckets, so that each rank can renew its slices and an all-gather brings
// the others' (ZeRO 1 and 2). Parameters stay what they were to the model: their tensors become views.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/train/parameters.h"
#include "libdistill/train/shard_plan.h"

namespace distill {

class FlatParameters {
 public:
  // Moves the parameters' values, which are of one type, into memory of comm.Allocate, and makes the parameters views
  // into it; they keep it alive. Every rank must call it, with the same parameters and plan. InvalidArgument:
  // parameters of several types.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FlatParameters>> Create(
      Communicator& comm, const std::vector<TrainedParameter>& parameters, const ShardPlan& plan);

  // A call that brings the other ranks' slices of a bucket, once this rank's was written by what the current stream of
  // its device holds now; when it has ended the values are there. For AsyncCalls::Run, or to be called. Every rank must
  // make it.
  std::function<absl::Status(Communicator&)> GatherCall(size_t bucket) const;
  // All buckets' at once, on this thread.
  [[nodiscard]] absl::Status GatherAll(Communicator& comm) const;

 private:
  std::vector<torch::Tensor> buckets_;  // padded
};

}  // namespace distill
