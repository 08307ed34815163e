#include "libdistill/gradients/staging_in_place.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {

void StagingInPlace::StartStep() {
  for (Part& part : parts_) {
    part.filled = false;
    part.came = nullptr;
    TakeBack(part);
  }
}

torch::Tensor StagingInPlace::Place(size_t i) {
  if (!parts_[i].borrowed.expired()) return {};
  const torch::Tensor place = buckets_.gradient(i);
  // A storage of its own: autograd adds to a gradient in place where nobody else has its storage.
  const torch::Tensor borrowed = torch::from_blob(
      place.data_ptr(), place.sizes(), /*deleter=*/[place](void*) {}, place.options());
  parts_[i].borrowed = c10::weak_intrusive_ptr<c10::TensorImpl>(borrowed.getIntrusivePtr());
  return borrowed;
}

void StagingInPlace::TakeBack(Part& part) {
  if (const auto borrowed = part.borrowed.lock()) borrowed->bump_version();
}

void StagingInPlace::AddWide(size_t i, const torch::Tensor& gradient) {
  Put(i, gradient);
  const c10::Device device = gradient.device();
  if (!device.is_cpu()) parts_[i].came = std::make_shared<c10::Event>(RecordEvent(device));
}

// Moves what autograd left into the bucket. Autograd gives the first gradient away, so this one copy is all that it
// costs, none where it was made in borrowed memory, and adds later float32 ones in place; bfloat16 ones are added here,
// so that accumulation rounds only once.
void StagingInPlace::Take(size_t i) {
  const torch::Tensor& parameter = buckets_.parameters()[i].tensor;
  torch::Tensor& grad = parameter.mutable_grad();
  const torch::Tensor place = buckets_.gradient(i);
  if (!grad.defined() || grad.is_same(place)) return;
  Put(i, grad.layout() == torch::kStrided ? grad : grad.to_dense());
  grad = parameter.scalar_type() == torch::kFloat32 ? place : torch::Tensor();
}

void StagingInPlace::Put(size_t i, const torch::Tensor& gradient) {
  torch::Tensor place = buckets_.gradient(i);
  TakeBack(parts_[i]);
  const bool is_there = gradient.data_ptr() == place.data_ptr();  // in what was borrowed
  if (!is_there && parts_[i].filled) {
    place.add_(gradient);
  } else if (!is_there) {
    place.copy_(gradient);
  }
  parts_[i].filled = true;
}

void StagingInPlace::OnComplete(size_t i) { buckets_.parameters()[i].tensor.mutable_grad() = torch::Tensor(); }

absl::Status StagingInPlace::FillUp(size_t b) {
  return CatchTorch([&] {
    for (const size_t i : buckets_.bucket(b).parameters) {
      Take(i);
      if (parts_[i].filled) continue;
      TakeBack(parts_[i]);
      torch::Tensor place = buckets_.gradient(i);
      place.zero_();
    }
    return absl::OkStatus();
  });
}

void StagingInPlace::OnLaunch(size_t b) {
  for (const size_t i : buckets_.bucket(b).parameters) {
    const auto came = std::exchange(parts_[i].came, nullptr);
    if (came == nullptr) continue;
    const c10::Device device = came->device();
    came->block(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
}

}  // namespace distill
