#include "libdistill/nn/rotary.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "libdistill/nn/layer_sweep.h"
#include "libdistill/nn/sweep_type.h"
#include "libdistill/tensor/parallel.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Slow rotations are divided by the factor, fast ones kept, those between interpolated.
Tensor ScaleAsLlama3(const Tensor& frequencies, const Llama3RopeScaling& scaling) {
  const double length = scaling.original_max_position_embeddings;
  const Tensor wavelength = 2 * M_PI / frequencies;
  const Tensor smooth =
      (length / wavelength - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  const Tensor between = (1 - smooth) * frequencies / scaling.factor + smooth * frequencies;
  const Tensor slow = wavelength > length / scaling.low_freq_factor;
  const Tensor fast = wavelength < length / scaling.high_freq_factor;
  return torch::where(slow, frequencies / scaling.factor, torch::where(fast, frequencies, between));
}

Tensor InverseFrequencies(const DecoderConfig& config) {
  const Tensor exponents = torch::arange(0, config.head_dim, 2, torch::kFloat32) / static_cast<double>(config.head_dim);
  const Tensor frequencies = 1.0 / torch::pow(config.rope_theta, exponents);
  return config.llama3_scaling.has_value() ? ScaleAsLlama3(frequencies, *config.llama3_scaling) : frequencies;
}

// Turning by the negative angles when `sign` is -1, which is also the gradient of turning by the positive ones.
Tensor TurnByTensors(const Tensor& x, const Tensor& cos, const Tensor& sin, int sign) {
  const int64_t half = x.size(-1) / 2;
  const Tensor x1 = x.narrow(-1, 0, half), x2 = x.narrow(-1, half, half);
  Tensor out = at::empty(x.sizes(), x.options());
  Tensor out1 = out.narrow(-1, 0, half), out2 = out.narrow(-1, half, half);
  at::mul_out(out1, x1, cos).addcmul_(x2, sin, -sign);
  at::mul_out(out2, x2, cos).addcmul_(x1, sin, sign);
  return out;
}

bool TakesSweep(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  return SweepType(x, cos, sin).has_value() && x.dim() == 3 && x.stride(2) == 1 && cos.is_contiguous() &&
         sin.is_contiguous() && cos.size(0) == x.size(0) && 2 * cos.numel() == x.size(0) * x.size(2) &&
         sin.sizes() == cos.sizes();
}

Tensor Turn(const Tensor& x, const Tensor& cos, const Tensor& sin, int sign) {
  if (!TakesSweep(x, cos, sin)) return TurnByTensors(x, cos, sin, sign);
  Tensor out = at::empty(x.sizes(), x.options());
  const TurnedRows work = {.dtype = *SweepType(x),
                           .heads = x.size(1),
                           .half = x.size(2) / 2,
                           .input = x.const_data_ptr(),
                           .row_stride = x.stride(0),
                           .head_stride = x.stride(1),
                           .cos = cos.const_data_ptr(),
                           .sin = sin.const_data_ptr(),
                           .back = sign < 0,
                           .output = out.mutable_data_ptr()};
  ParallelFor(x.size(0), std::max<int64_t>(1, kSweepGrain / std::max<int64_t>(1, x.size(1) * x.size(2))),
              [&](int64_t begin, int64_t end) { SweepsFor(work.dtype).turn(work, begin, end); });
  return out;
}

template <Tensor (*turn)(const Tensor& x, const Tensor& cos, const Tensor& sin, int sign)>
struct RotateFunction : torch::autograd::Function<RotateFunction<turn>> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cos, const Tensor& sin) {
    context->save_for_backward({cos, sin});
    return turn(x, cos, sin, 1);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    RequireFirstDerivative();
    return {turn(grads[0], saved[0], saved[1], -1), Tensor(), Tensor()};
  }
};

}  // namespace

RotaryTable::RotaryTable(const DecoderConfig& config) : inverse_frequencies_(InverseFrequencies(config)) {}

RotaryAngles RotaryTable::At(const Tensor& positions, int64_t length, const Tensor& like) {
  const int64_t known = table_.cos.defined() ? table_.cos.size(0) : 0;
  const bool fits = known > 0 && known >= length && table_.cos.device() == like.device() &&
                    table_.cos.scalar_type() == like.scalar_type();
  if (!fits) {
    const torch::NoGradGuard no_grad;
    const Tensor all = torch::arange(std::max(length, known), torch::kFloat32).to(like.device());
    const Tensor angles = torch::outer(all, inverse_frequencies_.to(like.device())).unsqueeze_(1);
    table_ = {angles.cos().to(like.scalar_type()), angles.sin().to(like.scalar_type())};
  }
  return {table_.cos.index_select(0, positions), table_.sin.index_select(0, positions)};
}

Tensor Rotate(const Tensor& x, const RotaryAngles& angles) {
  if (!torch::GradMode::is_enabled()) return Turn(x, angles.cos, angles.sin, 1);
  return RotateFunction<Turn>::apply(x, angles.cos, angles.sin);
}

Tensor RotateReference(const Tensor& x, const RotaryAngles& angles) {
  return RotateFunction<TurnByTensors>::apply(x, angles.cos, angles.sin);
}

}  // namespace distill
