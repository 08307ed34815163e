#include "libdistill/gradients/gradient_buckets.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {

absl::StatusOr<torch::Tensor> AllocateAnyway(Communicator& comm, int64_t elements, torch::Dtype dtype,
                                             c10::Device device) {
  const auto options = torch::TensorOptions().dtype(dtype).device(device);
  if (device.is_cpu() || comm.takes_device_memory()) {
    const int64_t bytes = elements * static_cast<int64_t>(torch::elementSize(dtype));
    absl::StatusOr<std::unique_ptr<CommMemory>> memory = comm.Allocate(bytes, {.on_device = !device.is_cpu()});
    if (memory.ok()) {
      const std::shared_ptr<CommMemory> kept = *std::move(memory);
      return torch::from_blob(
          kept->data(), {elements}, /*deleter=*/[kept](void*) {}, options);
    }
    if (!absl::IsResourceExhausted(memory.status())) return memory.status();
    if (comm.rank() == 0) {
      LogWarning(absl::StrCat("buckets are in ordinary memory, which is slower: ", memory.status().message()));
    }
  }
  torch::Tensor ordinary;
  DISTILL_RETURN_IF_ERROR(Agree(comm, CatchTorch([&] { ordinary = torch::zeros({elements}, options); })));
  return ordinary;
}

absl::StatusOr<GradientBuckets> GradientBuckets::Create(Communicator& comm,
                                                        const std::vector<TrainedParameter>& parameters,
                                                        const ShardPlan& plan, int stage) {
  GradientBuckets buckets(parameters, plan, stage, comm.rank());
  const GradientSizes sizes = SizesOfGradients(ElementsOf(parameters), plan, stage);
  DISTILL_ASSIGN_OR_RETURN(buckets.memory_,
                           AllocateAnyway(comm, sizes.buckets, torch::kFloat32, parameters[0].tensor.device()));
  if (stage >= 2) {
    const auto make_slices = [&] { buckets.slices_ = torch::zeros({sizes.slices}, buckets.memory_.options()); };
    DISTILL_RETURN_IF_ERROR(Agree(comm, CatchTorch(make_slices)));
  }
  buckets.Lay(plan);
  return buckets;
}

GradientSizes SizesOfGradients(const std::vector<int64_t>& elements, const ShardPlan& plan, int stage) {
  if (stage < 2) return {.buckets = RoomForAnyPlan(elements, plan.shards())};
  GradientSizes sizes{.buckets = PlacesInSlots(plan).elements};
  for (size_t b = 0; b < plan.num_buckets(); ++b) sizes.slices += plan.slice(b);
  return sizes;
}

int64_t SizeOfOwnMemory(const ShardPlan& plan, size_t b, torch::Dtype dtype) {
  const bool is_gradient =
      plan.members()[b].size() == 1 && dtype == torch::kFloat32 && plan.elements(b) == plan.padded(b);
  return is_gradient ? 0 : plan.padded(b);
}

void GradientBuckets::Lay(const ShardPlan& plan) {
  plan_ = plan;
  buckets_.clear();
  int64_t slices = 0;  // elements of those before
  const BucketPlaces places = stage_ < 2 ? PlacesInARow(plan_) : PlacesInSlots(plan_);
  for (size_t b = 0; b < plan.num_buckets(); ++b) {
    GradientBucket& bucket = buckets_.emplace_back();
    bucket.parameters = plan.members()[b];
    bucket.shards = plan.shards();
    bucket.part = plan.OfBucket(b, bucket.is_sharded() ? rank_ : 0);
    bucket.before = places.before[b];
    bucket.has_place = places.begin[b] != kNoPlace;
    for (const size_t i : bucket.parameters) {
      const torch::Tensor& tensor = parameters_[i].tensor;
      bucket.has_embedding |= tensor.dim() == 2 && tensor.size(0) >= kEmbeddingRows;
    }
    if (stage_ >= 2) {
      bucket.mine = slices_.narrow(0, slices, bucket.part.count);
      slices += plan.slice(b);
    }
    if (!bucket.has_place) continue;
    Place(b, memory_.narrow(0, places.begin[b], plan.padded(b)));
    if (stage_ < 2) bucket.mine = bucket.values.narrow(0, bucket.part.begin, bucket.part.count);
  }
}

void GradientBuckets::Place(size_t b, const torch::Tensor& padded) {
  GradientBucket& bucket = buckets_[b];
  bucket.padded = padded;
  bucket.values = padded.narrow(0, 0, plan_.elements(b));
  for (const size_t i : bucket.parameters) {
    const torch::Tensor& tensor = parameters_[i].tensor;
    gradients_[i] = bucket.values.narrow(0, plan_.offset(i), tensor.numel()).view(tensor.sizes());
  }
  ClearGaps(b);
}

void GradientBuckets::ClearGaps(size_t b) {
  for (const ShardPlan::Part& gap : plan_.Gaps(b)) buckets_[b].values.narrow(0, gap.begin, gap.count).zero_();
}

void GradientBuckets::GiveMemory(size_t b, const torch::Tensor& gradient) {
  const bool fits = gradient.defined() && gradient.layout() == torch::kStrided && gradient.is_contiguous() &&
                    SizeOfOwnMemory(plan_, b, gradient.scalar_type()) == 0;
  Place(b, fits ? gradient.detach().view({-1}) : torch::empty({plan_.padded(b)}, slices_.options()));
}

void GradientBuckets::TakeMemory(size_t b) {
  buckets_[b].values = buckets_[b].padded = torch::Tensor();
  for (const size_t i : buckets_[b].parameters) gradients_[i] = torch::Tensor();
}

torch::Tensor GradientBuckets::OwnGradient(size_t i) const {
  if (plan_.shards() == 1) return gradients_[i].view({-1});
  const size_t b = plan_.bucket_of(i);
  const ShardPlan::Part part = plan_.OfParameter(i, rank_);
  const int64_t in_bucket = plan_.offset(i) + part.begin;
  const int64_t in_slice = part.count == 0 ? 0 : in_bucket - plan_.OfBucket(b, rank_).begin;
  return buckets_[b].mine.narrow(0, in_slice, part.count);
}

double GradientBuckets::Norm() const {
  double sum = 0;
  for (const GradientBucket& bucket : buckets_) sum += bucket.sum_of_squares;
  return std::sqrt(sum);
}

size_t GradientBuckets::FirstNonFinite() const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!torch::isfinite(OwnGradient(i)).all().item<bool>()) return i;
  }
  return parameters_.size();
}

}  // namespace distill
