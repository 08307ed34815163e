#include "libdistill/nn/rotary.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "libdistill/nn/layer_sweep_run.h"
#include "libdistill/nn/rotary_frequencies.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// By the negative angles when `sign` is -1, which is also the gradient of rotating by the positive ones.
Tensor RotateByTensors(const Tensor& x, const Tensor& cos, const Tensor& sin, int sign) {
  const int64_t half = cos.size(-1);
  const Tensor x1 = x.narrow(-1, 0, half), x2 = x.narrow(-1, half, half);
  Tensor out = at::empty(x.sizes(), x.options());
  Tensor out1 = out.narrow(-1, 0, half), out2 = out.narrow(-1, half, half);
  at::mul_out(out1, x1, cos).addcmul_(x2, sin, -sign);
  at::mul_out(out2, x2, cos).addcmul_(x1, sin, sign);
  const int64_t rest = x.size(-1) - 2 * half;
  if (rest > 0) out.narrow(-1, 2 * half, rest).copy_(x.narrow(-1, 2 * half, rest));
  return out;
}

bool TakesSweep(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  return LayerSweepType(x, cos, sin).has_value() && x.dim() == 3 && x.stride(2) == 1 && cos.is_contiguous() &&
         sin.is_contiguous() && cos.size(0) == x.size(0) && cos.numel() == x.size(0) * cos.size(2) &&
         2 * cos.size(2) <= x.size(2) && sin.sizes() == cos.sizes();
}

Tensor RotatePairs(const Tensor& x, const Tensor& cos, const Tensor& sin, int sign) {
  if (!TakesSweep(x, cos, sin)) return RotateByTensors(x, cos, sin, sign);
  Tensor out = at::empty(x.sizes(), x.options());
  const RotatedRows work = {.dtype = *LayerSweepType(x),
                            .heads = x.size(1),
                            .size = x.size(2),
                            .half = cos.size(2),
                            .input = x.const_data_ptr(),
                            .row_stride = x.stride(0),
                            .head_stride = x.stride(1),
                            .cos = cos.const_data_ptr(),
                            .sin = sin.const_data_ptr(),
                            .back = sign < 0,
                            .output = out.mutable_data_ptr()};
  RunRotate(work, x.size(0), x.device());
  return out;
}

template <Tensor (*rotate)(const Tensor& x, const Tensor& cos, const Tensor& sin, int sign)>
struct RotateFunction : torch::autograd::Function<RotateFunction<rotate>> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cos, const Tensor& sin) {
    context->save_for_backward({cos, sin});
    return rotate(x, cos, sin, 1);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    RequireFirstDerivative();
    return {rotate(grads[0], saved[0], saved[1], -1), Tensor(), Tensor()};
  }
};

}  // namespace

const RotaryAngles& RotaryTable::Table(int64_t key, int64_t length, const Tensor& like) {
  RotaryAngles& table = tables_[key];
  const int64_t known = table.cos.defined() ? table.cos.size(0) : 0;
  const bool fits = known > 0 && known >= length && table.cos.device() == like.device() &&
                    table.cos.scalar_type() == like.scalar_type();
  if (fits) return table;
  return table = Compute(key, torch::arange(std::max(length, known), torch::kInt64).to(like.device()), like);
}

RotaryAngles RotaryTable::Compute(int64_t key, const Tensor& positions, const Tensor& like) const {
  const torch::NoGradGuard no_grad;
  const Tensor angles =
      torch::outer(positions.to(torch::kFloat32), InverseFrequencies(rope_, head_size_, key).to(like.device()))
          .unsqueeze_(1);
  const auto scaled = [&](const Tensor& x) {
    return (rope_.attention_factor == 1 ? x : x * rope_.attention_factor).to(like.scalar_type());
  };
  return {scaled(angles.cos()), scaled(angles.sin())};
}

RotaryAngles RotaryTable::At(const Tensor& positions, int64_t length, const std::vector<DocumentSpan>& documents,
                             const Tensor& like) {
  const auto look_up = [&](int64_t key, const Tensor& some) -> RotaryAngles {
    // Each length beyond the model's has frequencies of its own: tables of all of them would only pile up.
    if (rope_.type == RopeType::kDynamic && key != 0) return Compute(key, some, like);
    const RotaryAngles& table = Table(key, length, like);
    return {table.cos.index_select(0, some), table.sin.index_select(0, some)};
  };
  if (!rope_.depends_on_length()) return look_up(0, positions);
  // Neighbours with the same frequencies at once.
  std::vector<Tensor> cosines, sines;
  int64_t first = 0;
  for (size_t i = 0; i < documents.size();) {
    const int64_t key = rope_.KeyOf(documents[i].length);
    int64_t tokens = 0;
    for (; i < documents.size() && rope_.KeyOf(documents[i].length) == key; ++i) tokens += documents[i].tokens;
    const RotaryAngles angles = look_up(key, positions.narrow(0, first, tokens));
    cosines.push_back(angles.cos), sines.push_back(angles.sin);
    first += tokens;
  }
  if (cosines.size() == 1) return {cosines[0], sines[0]};
  return {at::cat(cosines), at::cat(sines)};
}

Tensor Rotate(const Tensor& x, const RotaryAngles& angles) {
  if (!torch::GradMode::is_enabled()) return RotatePairs(x, angles.cos, angles.sin, 1);
  return RotateFunction<RotatePairs>::apply(x, angles.cos, angles.sin);
}

Tensor RotateReference(const Tensor& x, const RotaryAngles& angles) {
  return RotateFunction<RotateByTensors>::apply(x, angles.cos, angles.sin);
}

}  // namespace distill
