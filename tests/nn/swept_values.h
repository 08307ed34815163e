// What the tests of the layers' sweeps, of CPUs and of GPUs, compare with: the same formulas in float64.
#pragma once

#include <vector>

#include <torch/types.h>

#include "libdistill/core/dtype.h"
#include "libdistill/nn/decoder_config.h"
#include "libdistill/nn/layer_sweep.h"
#include "libdistill/nn/norm_and_gate.h"
#include "tests/support/catch.h"

namespace distill {

struct SweptType {
  torch::Dtype torch;
  DType ours;
  double tolerance;  // of a result that was rounded twice
};
constexpr SweptType kSweptTypes[] = {{torch::kFloat32, DType::kFloat32, 4e-6},
                                     {torch::kBFloat16, DType::kBFloat16, 8e-3},
                                     {torch::kFloat16, DType::kFloat16, 1.2e-3}};

constexpr double kSweptEpsilon = 1e-6;

// On the CPU.
inline torch::Tensor DrawnValues(const std::vector<int64_t>& shape, torch::Dtype dtype, double deviation = 1) {
  return torch::randn(shape, torch::kFloat32).mul_(deviation).to(dtype);
}

// A result and the gradients of the two tensors that it comes from.
struct Differentiated {
  torch::Tensor output, of_first, of_second;
};

// `operation` of leaves of such values.
template <typename Operation>
Differentiated Differentiate(const torch::Tensor& first, const torch::Tensor& second, const torch::Tensor& gradient,
                             const Operation& operation) {
  const torch::Tensor a = first.detach().clone().requires_grad_(), b = second.detach().clone().requires_grad_();
  const torch::Tensor output = operation(a, b);
  output.backward(gradient);
  return {output.detach(), a.grad(), b.grad()};
}

inline torch::Tensor InFloat64(const torch::Tensor& tensor) { return tensor.to(torch::kFloat64); }

inline Differentiated NormInFloat64(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& gradient,
                                    NormKind kind) {
  return Differentiate(InFloat64(x), InFloat64(weight), InFloat64(gradient), [&](const auto& a, const auto& b) {
    const auto y = a * (a.square().mean(-1, true) + kSweptEpsilon).rsqrt();
    return y * (kind == NormKind::kPlusOne ? b + 1 : b);
  });
}

inline Differentiated GatedInFloat64(const torch::Tensor& gate, const torch::Tensor& up, const torch::Tensor& gradient,
                                     GateKind kind) {
  return Differentiate(InFloat64(gate), InFloat64(up), InFloat64(gradient),
                       [&](const auto& a, const auto& b) { return GatedUnitReference(a, b, kind); });
}

// x [N, heads, D], cos and sin [N, R / 2] or [N, 1, R / 2].
inline torch::Tensor RotatedInFloat64(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin,
                                      bool back) {
  const int64_t half = cos.size(-1);
  const auto wide = InFloat64(x), c = InFloat64(cos).view({x.size(0), 1, half}),
             s = InFloat64(sin).view({x.size(0), 1, half}) * (back ? -1.0 : 1.0);
  const auto x1 = wide.narrow(2, 0, half), x2 = wide.narrow(2, half, half);
  return torch::cat({x1 * c - x2 * s, x2 * c + x1 * s, wide.narrow(2, 2 * half, x.size(2) - 2 * half)}, 2);
}

// x [N, heads, D] in any strides but the last, cos and sin [N, R / 2]; `out` [N, heads, D].
inline RotatedRows RotatedRowsOf(DType dtype, const torch::Tensor& x, const torch::Tensor& cos,
                                 const torch::Tensor& sin, bool back, torch::Tensor& out) {
  return {.dtype = dtype,
          .heads = x.size(1),
          .size = x.size(2),
          .half = cos.size(-1),
          .input = x.const_data_ptr(),
          .row_stride = x.stride(0),
          .head_stride = x.stride(1),
          .cos = cos.const_data_ptr(),
          .sin = sin.const_data_ptr(),
          .back = back,
          .output = out.mutable_data_ptr()};
}

// Whether results are near those of float64, whose exponentials may be too small for float32, and all for float16.
inline bool AreNear(const torch::Tensor& actual, const torch::Tensor& expected, double tolerance) {
  const double least = actual.scalar_type() == torch::kFloat16 ? 1e-7 : 1e-30;
  return (InFloat64(actual) - expected).abs().max().item<double>() <=
         tolerance * expected.abs().max().item<double>() + least;
}

}  // namespace distill
