#include "libdistill/train/flat_parameters.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/bucket_places.h"
#include "libdistill/train/gradient_buckets.h"
#include "libdistill/train/tensor_collectives.h"

namespace distill {
namespace {

absl::Status CheckOneType(const std::vector<TrainedParameter>& parameters) {
  for (const TrainedParameter& parameter : parameters) {
    if (parameter.tensor.scalar_type() == parameters[0].tensor.scalar_type()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("zero_stage: parameters of one type can be sharded, and ", parameters[0].name, " is ",
                     c10::toString(parameters[0].tensor.scalar_type()), ", ", parameter.name, " ",
                     c10::toString(parameter.tensor.scalar_type()), "; make them alike, or set zero_stage to 0"));
  }
  return absl::OkStatus();
}

// On a GPU: on a stream of its own, after `ready`, and it is done when this returns.
absl::Status GatherOnDevice(Communicator& comm, const torch::Tensor& padded, const c10::Event& ready) {
  const c10::impl::VirtualGuardImpl streams(padded.device().type());
  const c10::StreamGuard stream(streams.getStreamFromGlobalPool(padded.device(), /*isHighPriority=*/true));
  ready.block(stream.current_stream());
  DISTILL_RETURN_IF_ERROR(AllGatherSlices(comm, padded));
  stream.current_stream().synchronize();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<FlatParameters>> FlatParameters::Create(Communicator& comm,
                                                                       const std::vector<TrainedParameter>& parameters,
                                                                       const ShardPlan& plan) {
  DISTILL_RETURN_IF_ERROR(Agree(comm, CheckOneType(parameters)));
  const BucketPlaces places = PlacesInARow(plan);
  const torch::Tensor& first = parameters[0].tensor;
  DISTILL_ASSIGN_OR_RETURN(const torch::Tensor memory,
                           AllocateAnyway(comm, places.elements, first.scalar_type(), first.device()));
  auto flat = std::make_unique<FlatParameters>();
  DISTILL_RETURN_IF_ERROR(
      Agree(comm, CatchTorch([&] {
              const torch::NoGradGuard no_grad;
              for (size_t b = 0; b < plan.plan().buckets.size(); ++b) {
                flat->buckets_.push_back(memory.narrow(0, places.begin[b], plan.padded(b)));
                for (const size_t i : plan.plan().buckets[b]) {
                  torch::Tensor parameter = parameters[i].tensor;
                  const torch::Tensor view =
                      flat->buckets_[b].narrow(0, plan.offset(i), parameter.numel()).view(parameter.sizes());
                  torch::Tensor(view).copy_(parameter);
                  parameter.set_data(view);
                }
              }
              return absl::OkStatus();
            })));
  return flat;
}

std::function<absl::Status(Communicator&)> FlatParameters::GatherCall(size_t bucket) const {
  const torch::Tensor padded = buckets_[bucket];
  if (padded.is_cpu()) return [padded](Communicator& comm) { return AllGatherSlices(comm, padded); };
  const c10::impl::VirtualGuardImpl streams(padded.device().type());
  auto ready = std::make_shared<c10::Event>(padded.device().type());
  const absl::Status recorded = CatchTorch([&] {
    ready->record(streams.getStream(padded.device()));
    return absl::OkStatus();
  });
  return [padded, ready, recorded](Communicator& comm) {
    absl::Status gathered;
    absl::Status thrown = recorded;
    if (thrown.ok()) thrown = CatchTorch([&] { return gathered = GatherOnDevice(comm, padded, *ready); });
    if (!thrown.ok() && gathered.ok()) comm.Abort(thrown);  // the others must not wait for what never comes
    return thrown;
  };
}

absl::Status FlatParameters::GatherAll(Communicator& comm) const {
  for (size_t b = 0; b < buckets_.size(); ++b) DISTILL_RETURN_IF_ERROR(GatherCall(b)(comm));
  return absl::OkStatus();
}

}  // namespace distill
