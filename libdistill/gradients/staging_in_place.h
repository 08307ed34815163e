// Gradients with places of their own in their buckets, where they add up over micro-batches.
#pragma once

#include <memory>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/TensorImpl.h>

#include "libdistill/gradients/gradient_buckets.h"
#include "libdistill/gradients/gradient_staging.h"

namespace distill {

class StagingInPlace : public GradientStaging {
 public:
  explicit StagingInPlace(GradientBuckets& buckets) : buckets_(buckets), parts_(buckets.parameters().size()) {}

  void StartStep() override;
  bool has_places() const override { return true; }
  torch::Tensor Borrow(size_t i) override { return parts_[i].filled ? torch::Tensor() : Place(i); }
  torch::Tensor BorrowSum(size_t i) override { return parts_[i].filled ? Place(i) : torch::Tensor(); }
  void AddWide(size_t i, const torch::Tensor& gradient) override;
  void OnGradient(size_t i) override { Take(i); }
  void OnComplete(size_t i) override;
  absl::Status FillUp(size_t b) override;
  void OnLaunch(size_t b) override;

 private:
  struct Part {
    bool filled = false;               // its part of the bucket holds this step's gradient
    std::shared_ptr<c10::Event> came;  // on a GPU: when AddWide's was there, on the stream of that part of the pass
    c10::weak_intrusive_ptr<c10::TensorImpl> borrowed{c10::intrusive_ptr<c10::TensorImpl>()};
  };

  // To be borrowed; undefined as long as it is.
  torch::Tensor Place(size_t i);
  void Take(size_t i);
  // The first part of a step is put in the bucket, and later ones are added, but for what was made or added there.
  void Put(size_t i, const torch::Tensor& gradient);
  // Its part of the bucket is about to change.
  static void TakeBack(Part& part);

  GradientBuckets& buckets_;
  std::vector<Part> parts_;  // of each parameter
};

}  // namespace distill
