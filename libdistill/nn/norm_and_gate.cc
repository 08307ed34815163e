#include "libdistill/nn/norm_and_gate.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "libdistill/nn/layer_sweep.h"
#include "libdistill/nn/sweep_type.h"
#include "libdistill/tensor/parallel.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows of which one thread adds up the gradient of the weight: the same whatever the number of threads is.
constexpr int64_t kRowsTogether = 128;

struct Normed {
  Tensor output;
  Tensor scale;  // [N, 1]: what each row was multiplied by
};

struct Gradients {
  Tensor input, weight;  // undefined where not wanted
};

Normed NormByTensors(const Tensor& input, const Tensor& weight, double epsilon) {
  const Tensor wide = input.to(torch::kFloat32);
  Tensor scale = at::linalg_vector_norm(wide, 2, {-1}, /*keepdim=*/true)
                     .square_()
                     .div_(static_cast<double>(input.size(-1)))
                     .add_(epsilon)
                     .rsqrt_();
  Tensor normalised = (wide * scale).to(input.scalar_type());
  return {normalised.mul_(weight), scale};
}

// With y = x * r, r = 1 / sqrt(mean(x^2) + e), out = y * w, and g = grad * w:
//   grad_w = sum over rows of grad * y        grad_x = r * (g - y * mean(g * y))
Gradients GradientsByTensors(const Tensor& input, const Tensor& weight, const Tensor& scale, const Tensor& gradient,
                             bool of_input, bool of_weight) {
  const Tensor grad = gradient.to(torch::kFloat32);
  Tensor normalised = input.to(torch::kFloat32) * scale;
  Gradients gradients;
  Tensor product = grad * normalised;
  if (of_weight) gradients.weight = product.sum(0).to(weight.scalar_type());
  if (of_input) {
    const Tensor wide_weight = weight.to(torch::kFloat32);
    const Tensor mean = at::matmul(product, wide_weight).div_(static_cast<double>(input.size(-1))).unsqueeze_(-1);
    Tensor wide_grad = grad * wide_weight;
    wide_grad.sub_(normalised.mul_(mean)).mul_(scale);
    gradients.input = wide_grad.to(input.scalar_type());
  }
  return gradients;
}

bool TakesNormSweep(const Tensor& input, const Tensor& weight) {
  return SweepType(input, weight).has_value() && input.dim() == 2 && input.is_contiguous() && weight.is_contiguous() &&
         weight.numel() == input.size(1);
}

Normed NormBySweep(const Tensor& input, const Tensor& weight, double epsilon) {
  const int64_t rows = input.size(0), size = input.size(1);
  Normed normed = {at::empty_like(input), at::empty({rows, 1}, input.options().dtype(torch::kFloat32))};
  const NormRows work = {.dtype = *SweepType(input),
                         .size = size,
                         .input = input.const_data_ptr(),
                         .weight = weight.const_data_ptr(),
                         .scales = normed.scale.mutable_data_ptr<float>(),
                         .output = normed.output.mutable_data_ptr(),
                         .epsilon = static_cast<float>(epsilon)};
  ParallelFor(rows, std::max<int64_t>(1, kSweepGrain / std::max<int64_t>(1, size)),
              [&](int64_t begin, int64_t end) { SweepsFor(work.dtype).norm(work, begin, end); });
  return normed;
}

Gradients GradientsBySweep(const Tensor& input, const Tensor& weight, const Tensor& scale, const Tensor& gradient,
                           bool of_input, bool of_weight) {
  const int64_t rows = input.size(0), size = input.size(1), parts = (rows + kRowsTogether - 1) / kRowsTogether;
  const Tensor grad = gradient.contiguous();
  Gradients gradients;
  if (of_input) gradients.input = at::empty_like(input);
  Tensor sums;
  if (of_weight) sums = at::zeros({parts, size}, scale.options());
  NormRows work = {.dtype = *SweepType(input),
                   .size = size,
                   .input = input.const_data_ptr(),
                   .weight = weight.const_data_ptr(),
                   .scales = scale.mutable_data_ptr<float>(),
                   .gradient = grad.const_data_ptr()};
  if (of_input) work.input_gradient = gradients.input.mutable_data_ptr();
  ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      NormRows mine = work;
      if (of_weight) mine.weight_gradient = sums.mutable_data_ptr<float>() + part * size;
      SweepsFor(mine.dtype).norm_gradient(mine, part * kRowsTogether, std::min(rows, (part + 1) * kRowsTogether));
    }
  });
  if (of_weight) gradients.weight = (parts == 1 ? sums[0] : sums.sum(0)).to(weight.scalar_type());
  return gradients;
}

// Saves the input and one number a row; the normalised rows are computed again in the backward.
struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight, double epsilon,
                        bool sweeps) {
    const Normed normed = sweeps ? NormBySweep(input, weight, epsilon) : NormByTensors(input, weight, epsilon);
    context->save_for_backward({input, weight, normed.scale});
    context->saved_data["sweeps"] = sweeps;
    return normed.output;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    RequireFirstDerivative();
    const auto compute = context->saved_data["sweeps"].toBool() ? GradientsBySweep : GradientsByTensors;
    const Gradients gradients =
        compute(saved[0], saved[1], saved[2], grads[0], context->needs_input_grad(0), context->needs_input_grad(1));
    return {gradients.input, gradients.weight, Tensor(), Tensor()};
  }
};

bool TakesGatedSweep(const Tensor& gate, const Tensor& up) {
  return SweepType(gate, up).has_value() && gate.is_contiguous() && up.is_contiguous() && gate.sizes() == up.sizes();
}

Tensor GatedWithoutGraph(const Tensor& gate, const Tensor& up) {
  if (!TakesGatedSweep(gate, up)) return GatedUnitReference(gate, up);
  Tensor output = at::empty_like(gate);
  const GatedElements work = {
      .dtype = *SweepType(gate), .gate = gate.const_data_ptr(), .up = up.const_data_ptr(), .output = output.data_ptr()};
  ParallelFor(gate.numel(), kSweepGrain,
              [&](int64_t begin, int64_t end) { SweepsFor(work.dtype).gated(work, begin, end); });
  return output;
}

// With s = 1 / (1 + exp(-gate)):  grad_up = grad * gate * s   grad_gate = grad * up * s * (1 + gate * (1 - s))
struct GatedUnitFunction : torch::autograd::Function<GatedUnitFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& gate, const Tensor& up) {
    context->save_for_backward({gate, up});
    return GatedWithoutGraph(gate, up);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &gate = saved[0], &up = saved[1], gradient = grads[0].contiguous();
    RequireFirstDerivative();
    if (!TakesGatedSweep(gate, up)) return {at::silu_backward(gradient * up, gate), gradient * at::silu(gate)};
    Tensor of_gate = at::empty_like(gate), of_up = at::empty_like(up);
    const GatedElements work = {.dtype = *SweepType(gate),
                                .gate = gate.const_data_ptr(),
                                .up = up.const_data_ptr(),
                                .gradient = gradient.const_data_ptr(),
                                .gate_gradient = of_gate.data_ptr(),
                                .up_gradient = of_up.data_ptr()};
    ParallelFor(gate.numel(), kSweepGrain,
                [&](int64_t begin, int64_t end) { SweepsFor(work.dtype).gated_gradient(work, begin, end); });
    return {of_gate, of_up};
  }
};

}  // namespace

Tensor RmsNorm(const Tensor& input, const Tensor& weight, double epsilon) {
  const bool sweeps = TakesNormSweep(input, weight);
  if (sweeps && !torch::GradMode::is_enabled()) return NormBySweep(input, weight, epsilon).output;
  return RmsNormFunction::apply(input, weight, epsilon, sweeps);
}

Tensor RmsNormReference(const Tensor& input, const Tensor& weight, double epsilon) {
  return RmsNormFunction::apply(input, weight, epsilon, /*sweeps=*/false);
}

Tensor GatedUnitReference(const Tensor& gate, const Tensor& up) { return at::silu(gate) * up; }

Tensor GatedUnit(const Tensor& gate, const Tensor& up) {
  return torch::GradMode::is_enabled() ? GatedUnitFunction::apply(gate, up) : GatedWithoutGraph(gate, up);
}

}  // namespace distill
