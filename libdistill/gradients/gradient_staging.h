// How gradients get from autograd into the memory of their buckets. When a bucket leaves is GradientOrder's matter.
//
//   in place   each gradient has a place of its own, and adds up there over micro-batches (stages 0 and 1)
//   in slots   gradients wait where autograd left them until a slot is free for their bucket (from 2 on)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <torch/types.h>

#include "absl/status/status.h"
#include "libdistill/gradients/gradient_buckets.h"

namespace distill {

// By default without places: there is no memory in which gradients could add up, and nothing to be done before a bucket
// leaves. All but the destructor is called with the reducer's lock, without gradients (torch::NoGradGuard); `i` is a
// parameter by index, `b` a bucket. They throw c10::Error.
class GradientStaging {
 public:
  virtual ~GradientStaging() = default;

  // There are no gradients.
  virtual void StartStep() {}
  // See GradientReducer::Borrow, BorrowSum, TakesWide and AddWide: what needs places that stay.
  virtual bool has_places() const { return false; }
  virtual torch::Tensor Borrow(size_t /*i*/) { return {}; }
  virtual torch::Tensor BorrowSum(size_t /*i*/) { return {}; }
  virtual void AddWide(size_t i, const torch::Tensor& gradient) = 0;

  // Autograd has made a part of the gradient.
  virtual void OnGradient(size_t /*i*/) {}
  // That was the last part: one that comes late must not be added to what is on its way.
  virtual void OnComplete(size_t /*i*/) {}
  // At the step's end, of a bucket that has not left: zeros for what the step did not make. What fails leaves values of
  // no use in memory that others may sum all the same.
  [[nodiscard]] virtual absl::Status FillUp(size_t /*b*/) { return absl::OkStatus(); }
  // The bucket leaves next, once what the current stream holds now is done. Its memory is free.
  virtual void OnLaunch(size_t b) = 0;
};

// Of `zero_stage`; `buckets` must outlive it.
std::unique_ptr<GradientStaging> MakeStaging(int zero_stage, GradientBuckets& buckets);

// Elements of gradients that wait, from stage 2 on, until their bucket has a slot, at the most: one bucket's, which is
// being filled.
int64_t WaitingElements(const ShardPlan& plan);

}  // namespace distill
