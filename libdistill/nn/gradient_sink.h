// Where the gradients of some parameters may go in place of autograd's way: into the memory where whoever trains a
// model sums them.
//
// A model that takes part is a GradientSinkUser too, as Decoder and Encoder are: whoever trains it finds that by
// dynamic_cast and gives it a sink. A model that knows nothing of this has all its gradients by autograd, and trains
// the same.
#pragma once

#include <memory>
#include <utility>

#include <torch/types.h>

namespace distill {

// Used before a backward pass and in it, then also by autograd's threads.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // Borrows the memory where the gradient of a parameter will lie in the end, for a loss that knows the gradient before
  // the backward pass gives it, so that it need not be copied there: float32, contiguous, holding anything; undefined
  // where there is none to be had.
  virtual torch::Tensor Borrow(const torch::Tensor& parameter) = 0;
  // The same memory where it holds the sum of earlier gradients, for a loss that adds its own there as it is taken: its
  // backward pass is sure to come, begins with the scale that the loss was told, and gives the memory to AddWide, not
  // to autograd. Undefined where there is none to be had.
  virtual torch::Tensor BorrowSum(const torch::Tensor& parameter) = 0;
  // Whether the gradient of this parameter is to come by AddWide, in float32, in the backward pass of what is computed
  // now. Autograd would round it to the parameter's own type, and is to give none.
  virtual bool TakesWide(const torch::Tensor& parameter) = 0;
  virtual void AddWide(const torch::Tensor& parameter, const torch::Tensor& gradient) = 0;
  // Whether the gradients of this table's rows that are looked up now are to come by AddRows, and not by autograd: the
  // gradient of a table that is the head too then need not wait for its rows'.
  virtual bool TakesRows(const torch::Tensor& table) = 0;
  // ids int64 [N], gradients [N, H].
  virtual void AddRows(const torch::Tensor& table, const torch::Tensor& ids, const torch::Tensor& gradients) = 0;
};

class GradientSinkUser {
 public:
  virtual ~GradientSinkUser() = default;
  // Null: autograd has all gradients.
  void SetGradientSink(std::shared_ptr<GradientSink> sink) { sink_ = std::move(sink); }
  const std::shared_ptr<GradientSink>& gradient_sink() const { return sink_; }

 private:
  std::shared_ptr<GradientSink> sink_;
};

}  // namespace distill
