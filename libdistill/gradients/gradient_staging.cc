#include "libdistill/gradients/gradient_staging.h"

#include <c10/core/Event.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/own_stream.h"

namespace distill {
namespace {

// Autograd may leave a sparse one.
torch::Tensor Strided(const torch::Tensor& gradient) {
  return gradient.layout() == torch::kStrided ? gradient : gradient.to_dense();
}

class StagingInPlace : public GradientStaging {
 public:
  explicit StagingInPlace(GradientBuckets& buckets) : buckets_(buckets), parts_(buckets.parameters().size()) {}

  void StartStep() override {
    for (Part& part : parts_) {
      part.filled = false;
      part.came = nullptr;
      TakeBack(part);
    }
  }
  bool has_places() const override { return true; }
  torch::Tensor Borrow(size_t i) override { return parts_[i].filled ? torch::Tensor() : Place(i); }
  torch::Tensor BorrowSum(size_t i) override { return parts_[i].filled ? Place(i) : torch::Tensor(); }
  void AddWide(size_t i, const torch::Tensor& gradient) override {
    Put(i, gradient);
    const c10::Device device = gradient.device();
    if (!device.is_cpu()) parts_[i].came = std::make_shared<c10::Event>(RecordEvent(device));
  }

  // Moves what autograd left into the bucket. Autograd gives the first gradient away, so this one copy is all that it
  // costs, none where it was made in borrowed memory, and adds later float32 ones in place; bfloat16 ones are added
  // here, so that accumulation rounds only once.
  void OnGradient(size_t i) override {
    const torch::Tensor& parameter = buckets_.parameters()[i].tensor;
    torch::Tensor& grad = parameter.mutable_grad();
    const torch::Tensor place = buckets_.gradient(i);
    if (!grad.defined() || grad.is_same(place)) return;
    Put(i, Strided(grad));
    grad = parameter.scalar_type() == torch::kFloat32 ? place : torch::Tensor();
  }

  void OnComplete(size_t i) override { buckets_.parameters()[i].tensor.mutable_grad() = torch::Tensor(); }

  absl::Status FillUp(size_t b) override {
    return CatchTorch([&] {
      for (const size_t i : buckets_.bucket(b).parameters) {
        OnGradient(i);
        if (parts_[i].filled) continue;
        TakeBack(parts_[i]);
        torch::Tensor place = buckets_.gradient(i);
        place.zero_();
      }
    });
  }

  void OnLaunch(size_t b) override {
    for (const size_t i : buckets_.bucket(b).parameters) {
      const auto came = std::exchange(parts_[i].came, nullptr);
      if (came == nullptr) continue;
      const c10::Device device = came->device();
      came->block(CurrentStream(device));
    }
  }

 private:
  struct Part {
    bool filled = false;               // its part of the bucket holds this step's gradient
    std::shared_ptr<c10::Event> came;  // on a GPU: when AddWide's was there, on the stream of that part of the pass
    c10::weak_intrusive_ptr<c10::TensorImpl> borrowed{c10::intrusive_ptr<c10::TensorImpl>()};
  };

  // To be borrowed; undefined as long as it is.
  torch::Tensor Place(size_t i) {
    if (!parts_[i].borrowed.expired()) return {};
    const torch::Tensor place = buckets_.gradient(i);
    // A storage of its own: autograd adds to a gradient in place where nobody else has its storage.
    const torch::Tensor borrowed = torch::from_blob(
        place.data_ptr(), place.sizes(), /*deleter=*/[place](void*) {}, place.options());
    parts_[i].borrowed = c10::weak_intrusive_ptr<c10::TensorImpl>(borrowed.getIntrusivePtr());
    return borrowed;
  }

  // The first part of a step is put in the bucket, and later ones are added, but for what was made or added there.
  void Put(size_t i, const torch::Tensor& gradient) {
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

  // Its part of the bucket is about to change.
  static void TakeBack(Part& part) {
    if (const auto borrowed = part.borrowed.lock()) borrowed->bump_version();
  }

  GradientBuckets& buckets_;
  std::vector<Part> parts_;  // of each parameter
};

class StagingInSlots : public GradientStaging {
 public:
  explicit StagingInSlots(GradientBuckets& buckets) : buckets_(buckets) {}

  void AddWide(size_t i, const torch::Tensor& /*gradient*/) override {
    TORCH_CHECK(false, "the gradient of ", buckets_.parameters()[i].name,
                " has no place of its own from stage 2 on: give it to autograd");
  }

  void OnLaunch(size_t b) override {
    const std::vector<size_t>& members = buckets_.bucket(b).parameters;
    if (!buckets_.bucket(b).has_place) {
      buckets_.GiveMemory(b, buckets_.parameters()[members[0]].tensor.mutable_grad());
    }
    buckets_.ClearGaps(b);
    for (const size_t i : members) Move(i);
  }

 private:
  // To its slot, but not where it has become its bucket's memory; zeros for what the step did not make.
  void Move(size_t i) {
    torch::Tensor& grad = buckets_.parameters()[i].tensor.mutable_grad();
    torch::Tensor slot = buckets_.gradient(i);
    if (!grad.defined()) {
      slot.zero_();
      return;
    }
    const torch::Tensor gradient = Strided(grad);
    if (gradient.data_ptr() != slot.data_ptr()) slot.copy_(gradient);
    grad = torch::Tensor();
  }

  GradientBuckets& buckets_;
};

}  // namespace

std::unique_ptr<GradientStaging> MakeStaging(int zero_stage, GradientBuckets& buckets) {
  if (zero_stage >= 2) return std::make_unique<StagingInSlots>(buckets);
  return std::make_unique<StagingInPlace>(buckets);
}

int64_t WaitingElements(const ShardPlan& plan) {
  const BucketPlaces places = PlacesInSlots(plan);
  int64_t most = 0;
  for (size_t b = 0; b < places.begin.size(); ++b) {
    if (places.begin[b] != kNoPlace) most = std::max(most, plan.elements(b));
  }
  return most;
}

}  // namespace distill
