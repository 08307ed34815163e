#include "libdistill/nn/rotary.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

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
Tensor Turn(const Tensor& x, const Tensor& cos, const Tensor& sin, int sign) {
  const int64_t half = x.size(-1) / 2;
  const Tensor x1 = x.narrow(-1, 0, half), x2 = x.narrow(-1, half, half);
  Tensor out = at::empty(x.sizes(), x.options());
  Tensor out1 = out.narrow(-1, 0, half), out2 = out.narrow(-1, half, half);
  at::mul_out(out1, x1, cos).addcmul_(x2, sin, -sign);
  at::mul_out(out2, x2, cos).addcmul_(x1, sin, sign);
  return out;
}

struct RotateFunction : torch::autograd::Function<RotateFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cos, const Tensor& sin) {
    context->save_for_backward({cos, sin});
    return Turn(x, cos, sin, 1);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    return {Turn(grads[0], saved[0], saved[1], -1), Tensor(), Tensor()};
  }
};

}  // namespace

RotaryTable::RotaryTable(const DecoderConfig& config) : inverse_frequencies_(InverseFrequencies(config)) {}

void RotaryTable::Extend(int64_t length, const Tensor& like) {
  const bool fits = table_.cos.defined() && table_.cos.size(0) >= length && table_.cos.device() == like.device() &&
                    table_.cos.scalar_type() == like.scalar_type();
  if (fits) return;
  const torch::NoGradGuard no_grad;
  const int64_t known = table_.cos.defined() ? table_.cos.size(0) : 0;
  const Tensor positions = torch::arange(std::max(length, known), torch::kFloat32).to(like.device());
  const Tensor angles = torch::outer(positions, inverse_frequencies_.to(like.device())).unsqueeze_(1);
  table_ = {angles.cos().to(like.scalar_type()), angles.sin().to(like.scalar_type())};
}

RotaryAngles RotaryTable::At(const Tensor& positions, int64_t length, const Tensor& like) {
  Extend(length, like);
  return {table_.cos.index_select(0, positions), table_.sin.index_select(0, positions)};
}

RotaryAngles RotaryTable::Range(int64_t first, int64_t count, const Tensor& like) {
  Extend(first + count, like);
  return {table_.cos.narrow(0, first, count), table_.sin.narrow(0, first, count)};
}

Tensor Rotate(const Tensor& x, const RotaryAngles& angles) { return RotateFunction::apply(x, angles.cos, angles.sin); }

}  // namespace distill
