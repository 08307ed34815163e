#include "libdistill/shard/flat_parameters.h"

#include <algorithm>

#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/gradients/gradient_buckets.h"
#include "libdistill/gradients/tensor_collectives.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

// Of each bucket.
std::vector<bool> AreOfBlocks(const ShardPlan& plan, const std::vector<int64_t>& block_of) {
  std::vector<bool> of_blocks;
  for (const auto& bucket : plan.members()) of_blocks.push_back(!block_of.empty() && block_of[bucket[0]] >= 0);
  return of_blocks;
}

}  // namespace

int64_t FlatParameters::Elements(const ShardPlan& plan, const std::vector<int64_t>& block_of) {
  return PlacesInARow(plan, AreOfBlocks(plan, block_of)).elements;
}

absl::StatusOr<std::unique_ptr<FlatParameters>> FlatParameters::Create(
    Communicator& comm, const std::vector<TrainedParameter>& parameters, const ShardPlan& plan,
    const std::vector<int64_t>& block_of, size_t blocks, const ShardedBlocks::Options& options) {
  const std::vector<bool> in_block = AreOfBlocks(plan, block_of);
  auto flat = std::make_unique<FlatParameters>();
  DISTILL_RETURN_IF_ERROR(Agree(comm, CatchTorch([&]() -> absl::Status {
                                  DISTILL_RETURN_IF_ERROR(RequireOneType(parameters));
                                  flat->stream_ = std::make_shared<const HeldStream>(options.device);
                                  return absl::OkStatus();
                                })));
  flat->parts_.resize(parameters.size());
  DISTILL_RETURN_IF_ERROR(flat->Flatten(comm, parameters, plan, in_block, options.dtype, options.device));
  if (std::find(in_block.begin(), in_block.end(), true) == in_block.end()) return flat;
  DISTILL_ASSIGN_OR_RETURN(flat->blocks_, ShardedBlocks::Create(comm, parameters, block_of, blocks, plan, options));
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (block_of[i] >= 0) flat->parts_[i] = flat->blocks_->part(i);
  }
  return flat;
}

absl::Status FlatParameters::Flatten(Communicator& comm, const std::vector<TrainedParameter>& parameters,
                                     const ShardPlan& plan, const std::vector<bool>& in_block, torch::Dtype dtype,
                                     c10::Device device) {
  const BucketPlaces places = PlacesInARow(plan, in_block);
  buckets_.resize(in_block.size());
  if (places.elements == 0) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const torch::Tensor memory, AllocateAnyway(comm, places.elements, dtype, device));
  return Agree(comm, CatchTorch([&] {
                 const torch::NoGradGuard no_grad;
                 for (size_t b = 0; b < buckets_.size(); ++b) {
                   if (in_block[b]) continue;
                   buckets_[b] = memory.narrow(0, places.begin[b], plan.padded(b));
                   for (const size_t i : plan.members()[b]) {
                     torch::Tensor parameter = parameters[i].tensor;
                     const torch::Tensor flat = buckets_[b].narrow(0, plan.offset(i), parameter.numel());
                     torch::Tensor view = flat.view(parameter.sizes());
                     view.copy_(parameter);
                     parameter.set_data(view);
                     const ShardPlan::Part part = plan.OfParameter(i, comm.rank());
                     parts_[i] = flat.narrow(0, part.begin, part.count);
                   }
                 }
               }));
}

std::function<absl::Status(Communicator&)> FlatParameters::GatherCall(size_t bucket) const {
  const torch::Tensor padded = buckets_[bucket];
  if (!padded.defined()) return [](Communicator&) { return absl::OkStatus(); };
  return BehindStream(stream_, [padded](Communicator& comm) { return AllGatherSlices(comm, padded); });
}

absl::Status FlatParameters::GatherAll(Communicator& comm) const {
  for (size_t b = 0; b < buckets_.size(); ++b) DISTILL_RETURN_IF_ERROR(GatherCall(b)(comm));
  return absl::OkStatus();
}

}  // namespace distill
