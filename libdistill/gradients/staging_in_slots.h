// Gradients whose buckets take slots in order, or have memory of their own only until they are summed
// (gradient_buckets.h). There is no memory in which they could add up.
#pragma once

#include "libdistill/gradients/gradient_buckets.h"
#include "libdistill/gradients/gradient_staging.h"

namespace distill {

class StagingInSlots : public GradientStaging {
 public:
  explicit StagingInSlots(GradientBuckets& buckets) : buckets_(buckets) {}

  // Elements of gradients that wait until their bucket has a slot, at the most: one bucket's, which is being filled.
  static int64_t WaitingElements(const ShardPlan& plan);

  void StartStep() override {}
  bool has_places() const override { return false; }
  torch::Tensor Borrow(size_t /*i*/) override { return {}; }
  torch::Tensor BorrowSum(size_t /*i*/) override { return {}; }
  void AddWide(size_t i, const torch::Tensor& gradient) override;
  void OnGradient(size_t /*i*/) override {}
  void OnComplete(size_t /*i*/) override {}
  absl::Status FillUp(size_t /*b*/) override { return absl::OkStatus(); }
  // Moves its gradients there.
  void OnLaunch(size_t b) override;

 private:
  void Move(size_t i);

  GradientBuckets& buckets_;
};

}  // namespace distill
