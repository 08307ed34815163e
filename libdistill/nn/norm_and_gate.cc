#include "libdistill/nn/norm_and_gate.h"

#include <torch/csrc/autograd/custom_function.h>

#include "libdistill/nn/layer_sweep_run.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Normed {
  Tensor output;
  Tensor scale;  // [N, 1]: what each row was multiplied by
};

struct Gradients {
  Tensor input, weight;  // undefined where not wanted
};

// What multiplies the normalised states, in float32.
Tensor Multiplier(const Tensor& weight, NormKind kind) {
  const Tensor wide = weight.to(torch::kFloat32);
  return kind == NormKind::kPlusOne ? wide + 1 : wide;
}

Normed NormByTensors(const Tensor& input, const Tensor& weight, double epsilon, NormKind kind) {
  const Tensor wide = input.to(torch::kFloat32);
  Tensor scale = at::linalg_vector_norm(wide, 2, {-1}, /*keepdim=*/true)
                     .square_()
                     .div_(static_cast<double>(input.size(-1)))
                     .add_(epsilon)
                     .rsqrt_();
  if (kind != NormKind::kRounded) return {(wide * scale * Multiplier(weight, kind)).to(input.scalar_type()), scale};
  Tensor normalised = (wide * scale).to(input.scalar_type());
  return {normalised.mul_(weight), scale};
}

// With y = x * r, r = 1 / sqrt(mean(x^2) + e), out = y * w (w: the multiplier), and g = grad * w:
//   grad_w = sum over rows of grad * y        grad_x = r * (g - y * mean(g * y))
Gradients GradientsByTensors(const Tensor& input, const Tensor& weight, const Tensor& scale, const Tensor& gradient,
                             NormKind kind, bool of_input, bool of_weight) {
  const Tensor grad = gradient.to(torch::kFloat32);
  Tensor normalised = input.to(torch::kFloat32) * scale;
  Gradients gradients;
  Tensor product = grad * normalised;
  if (of_weight) gradients.weight = product.sum(0).to(weight.scalar_type());
  if (of_input) {
    const Tensor wide_weight = Multiplier(weight, kind);
    const Tensor mean = at::matmul(product, wide_weight).div_(static_cast<double>(input.size(-1))).unsqueeze_(-1);
    Tensor wide_grad = grad * wide_weight;
    wide_grad.sub_(normalised.mul_(mean)).mul_(scale);
    gradients.input = wide_grad.to(input.scalar_type());
  }
  return gradients;
}

bool TakesNormSweep(const Tensor& input, const Tensor& weight) {
  return LayerSweepType(input, weight).has_value() && input.dim() == 2 && input.is_contiguous() &&
         weight.is_contiguous() && weight.numel() == input.size(1);
}

NormRows RowsOf(const Tensor& input, const Tensor& weight, const Tensor& scale, NormKind kind) {
  return {.dtype = *LayerSweepType(input),
          .size = input.size(1),
          .input = input.const_data_ptr(),
          .weight = weight.const_data_ptr(),
          .scales = scale.mutable_data_ptr<float>(),
          .rounds = kind == NormKind::kRounded,
          .offset = kind == NormKind::kPlusOne ? 1.0F : 0.0F};
}

Normed NormBySweep(const Tensor& input, const Tensor& weight, double epsilon, NormKind kind) {
  const int64_t rows = input.size(0);
  Normed normed = {at::empty_like(input), at::empty({rows, 1}, input.options().dtype(torch::kFloat32))};
  NormRows work = RowsOf(input, weight, normed.scale, kind);
  work.output = normed.output.mutable_data_ptr();
  work.epsilon = static_cast<float>(epsilon);
  RunNorm(work, rows, input.device());
  return normed;
}

Gradients GradientsBySweep(const Tensor& input, const Tensor& weight, const Tensor& scale, const Tensor& gradient,
                           NormKind kind, bool of_input, bool of_weight) {
  const Tensor grad = gradient.contiguous();
  Gradients gradients;
  if (of_input) gradients.input = at::empty_like(input);
  NormRows work = RowsOf(input, weight, scale, kind);
  work.gradient = grad.const_data_ptr();
  if (of_input) work.input_gradient = gradients.input.mutable_data_ptr();
  const Tensor sum = RunNormGradient(work, input.size(0), of_weight, input.device());
  if (of_weight) gradients.weight = sum.to(weight.scalar_type());
  return gradients;
}

// Saves the input and one number a row; the normalised rows are computed again in the backward.
struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight, double epsilon,
                        NormKind kind, bool sweeps) {
    const Normed normed = (sweeps ? NormBySweep : NormByTensors)(input, weight, epsilon, kind);
    context->save_for_backward({input, weight, normed.scale});
    context->saved_data["kind"] = static_cast<int64_t>(kind);
    context->saved_data["sweeps"] = sweeps;
    return normed.output;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    RequireFirstDerivative();
    const auto compute = context->saved_data["sweeps"].toBool() ? GradientsBySweep : GradientsByTensors;
    const auto kind = static_cast<NormKind>(context->saved_data["kind"].toInt());
    const Gradients gradients = compute(saved[0], saved[1], saved[2], grads[0], kind, context->needs_input_grad(0),
                                        context->needs_input_grad(1));
    return {gradients.input, gradients.weight, Tensor(), Tensor(), Tensor()};
  }
};

// Rows of gate and up at one distance, which lets one tensor hold both.
bool TakesGatedSweep(const Tensor& gate, const Tensor& up) {
  return LayerSweepType(gate, up).has_value() && gate.dim() == 2 && gate.stride(1) == 1 &&
         gate.strides() == up.strides() && gate.sizes() == up.sizes();
}

GatedRows RowsOf(const Tensor& gate, const Tensor& up, GateKind kind) {
  return {.dtype = *LayerSweepType(gate),
          .is_gelu = kind == GateKind::kGeluTanh,
          .size = gate.size(1),
          .gate = gate.const_data_ptr(),
          .up = up.const_data_ptr(),
          .row_stride = gate.stride(0)};
}

Tensor Gate(const Tensor& gate, const Tensor& up, GateKind kind) {
  if (!TakesGatedSweep(gate, up)) return GatedUnitReference(gate, up, kind);
  Tensor output = at::empty(gate.sizes(), gate.options());
  GatedRows work = RowsOf(gate, up, kind);
  work.output = output.mutable_data_ptr();
  RunGated(work, gate.size(0), gate.device());
  return output;
}

// With act the activation:  grad_up = grad * act(gate)   grad_gate = grad * up * act'(gate)
void GateGradients(const Tensor& gate, const Tensor& up, const Tensor& gradient, GateKind kind, Tensor of_gate,
                   Tensor of_up) {
  if (!TakesGatedSweep(gate, up) || of_gate.strides() != gate.strides()) {
    const bool is_gelu = kind == GateKind::kGeluTanh;
    of_gate.copy_(is_gelu ? at::gelu_backward(gradient * up, gate, "tanh") : at::silu_backward(gradient * up, gate));
    of_up.copy_(gradient * (is_gelu ? at::gelu(gate, "tanh") : at::silu(gate)));
    return;
  }
  GatedRows work = RowsOf(gate, up, kind);
  work.gradient = gradient.const_data_ptr();
  work.gate_gradient = of_gate.mutable_data_ptr();
  work.up_gradient = of_up.mutable_data_ptr();
  RunGatedGradient(work, gate.size(0), gate.device());
}

struct GatedUnitFunction : torch::autograd::Function<GatedUnitFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& gate, const Tensor& up, GateKind kind) {
    context->save_for_backward({gate, up});
    context->saved_data["kind"] = static_cast<int64_t>(kind);
    return Gate(gate, up, kind);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    RequireFirstDerivative();
    const variable_list saved = context->get_saved_variables();
    const auto kind = static_cast<GateKind>(context->saved_data["kind"].toInt());
    Tensor of_gate = at::empty_like(saved[0]), of_up = at::empty_like(saved[1]);
    GateGradients(saved[0], saved[1], grads[0].contiguous(), kind, of_gate, of_up);
    return {of_gate, of_up, Tensor()};
  }
};

std::vector<Tensor> HalvesOf(const Tensor& both) { return at::chunk(both, 2, 1); }

struct GatedUnitOfBothFunction : torch::autograd::Function<GatedUnitOfBothFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& both, GateKind kind) {
    context->save_for_backward({both});
    context->saved_data["kind"] = static_cast<int64_t>(kind);
    const std::vector<Tensor> halves = HalvesOf(both);
    return Gate(halves[0], halves[1], kind);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    RequireFirstDerivative();
    const Tensor both = context->get_saved_variables()[0];
    const auto kind = static_cast<GateKind>(context->saved_data["kind"].toInt());
    const Tensor gradient = at::empty_like(both);
    const std::vector<Tensor> halves = HalvesOf(both), of_halves = HalvesOf(gradient);
    GateGradients(halves[0], halves[1], grads[0].contiguous(), kind, of_halves[0], of_halves[1]);
    return {gradient, Tensor()};
  }
};

}  // namespace

Tensor RmsNorm(const Tensor& input, const Tensor& weight, double epsilon, NormKind kind) {
  const bool sweeps = TakesNormSweep(input, weight);
  if (sweeps && !torch::GradMode::is_enabled()) return NormBySweep(input, weight, epsilon, kind).output;
  return RmsNormFunction::apply(input, weight, epsilon, kind, sweeps);
}

Tensor RmsNormReference(const Tensor& input, const Tensor& weight, double epsilon, NormKind kind) {
  return RmsNormFunction::apply(input, weight, epsilon, kind, /*sweeps=*/false);
}

Tensor GatedUnitReference(const Tensor& gate, const Tensor& up, GateKind kind) {
  return (kind == GateKind::kGeluTanh ? at::gelu(gate, "tanh") : at::silu(gate)) * up;
}

Tensor GatedUnit(const Tensor& gate, const Tensor& up, GateKind kind) {
  return torch::GradMode::is_enabled() ? GatedUnitFunction::apply(gate, up, kind) : Gate(gate, up, kind);
}

Tensor GatedUnit(const Tensor& gate_and_up, GateKind kind) {
  if (torch::GradMode::is_enabled()) return GatedUnitOfBothFunction::apply(gate_and_up, kind);
  const std::vector<Tensor> halves = HalvesOf(gate_and_up);
  return Gate(halves[0], halves[1], kind);
}

}  // namespace distill
