// A weight that is laid out once for many products with a few rows each, as generation has them: a library's product
// lays it out anew on each call, which takes longer than the product of so few rows (row_products.h); inside nn/ only.
#pragma once

#include <memory>

#include <torch/types.h>

namespace distill {

class PackedMatrix {
 public:
  // With more rows than this a library's own product is as fast.
  static constexpr int64_t kMostRows = 64;

  // A copy of `weight`, [out, in], as it is now: about as large. Null where it lies on another device than the CPU, is
  // of another type than float32 and bfloat16, or where this CPU has no instructions for it.
  static std::shared_ptr<const PackedMatrix> Of(const torch::Tensor& weight);

  // x W^T in float32, [N, out]; x [N, in] of the weight's type, without gradients.
  torch::Tensor Multiply(const torch::Tensor& x) const;

 private:
  PackedMatrix() = default;

  const struct RowProductLoops* loops_ = nullptr;
  int64_t out_ = 0, in_ = 0;
  torch::Tensor packed_;
};

}  // namespace distill
