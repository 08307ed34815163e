#include "libdistill/nn/gated_unit.h"

#include <torch/csrc/autograd/custom_function.h>

#include "libdistill/nn/layer_sweep.h"
#include "libdistill/nn/sweep_type.h"
#include "libdistill/tensor/parallel.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool TakesSweep(const Tensor& gate, const Tensor& up) {
  return SweepType(gate, up).has_value() && gate.is_contiguous() && up.is_contiguous() && gate.sizes() == up.sizes();
}

Tensor Sweep(const Tensor& gate, const Tensor& up) {
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
    return TakesSweep(gate, up) ? Sweep(gate, up) : GatedUnitReference(gate, up);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &gate = saved[0], &up = saved[1], gradient = grads[0].contiguous();
    RequireFirstDerivative();
    if (!TakesSweep(gate, up)) return {at::silu_backward(gradient * up, gate), gradient * at::silu(gate)};
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

Tensor GatedUnitReference(const Tensor& gate, const Tensor& up) { return at::silu(gate) * up; }

Tensor GatedUnit(const Tensor& gate, const Tensor& up) {
  if (torch::GradMode::is_enabled()) return GatedUnitFunction::apply(gate, up);
  return TakesSweep(gate, up) ? Sweep(gate, up) : GatedUnitReference(gate, up);
}

}  // namespace distill
