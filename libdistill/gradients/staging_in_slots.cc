#include "libdistill/gradients/staging_in_slots.h"

#include <algorithm>

#include "libdistill/gradients/bucket_places.h"

namespace distill {

int64_t StagingInSlots::WaitingElements(const ShardPlan& plan) {
  const BucketPlaces places = PlacesInSlots(plan);
  int64_t most = 0;
  for (size_t b = 0; b < places.begin.size(); ++b) {
    if (places.begin[b] != kNoPlace) most = std::max(most, plan.elements(b));
  }
  return most;
}

void StagingInSlots::AddWide(size_t i, const torch::Tensor& /*gradient*/) {
  TORCH_CHECK(false, "the gradient of ", buckets_.parameters()[i].name,
              " has no place of its own from stage 2 on: give it to autograd");
}

void StagingInSlots::OnLaunch(size_t b) {
  const std::vector<size_t>& members = buckets_.bucket(b).parameters;
  if (!buckets_.bucket(b).has_place) {
    buckets_.GiveMemory(b, buckets_.parameters()[members[0]].tensor.mutable_grad());
  }
  buckets_.ClearGaps(b);
  for (const size_t i : members) Move(i);
}

// Not where it has become its bucket's memory; zeros for what the step did not make.
void StagingInSlots::Move(size_t i) {
  torch::Tensor& grad = buckets_.parameters()[i].tensor.mutable_grad();
  torch::Tensor slot = buckets_.gradient(i);
  if (!grad.defined()) {
    slot.zero_();
    return;
  }
  const torch::Tensor gradient = grad.layout() == torch::kStrided ? grad : grad.to_dense();
  if (gradient.data_ptr() != slot.data_ptr()) slot.copy_(gradient);
  grad = torch::Tensor();
}

}  // namespace distill
