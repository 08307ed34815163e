#include "libdistill/loss/distillation_loss.h"

#include <torch/csrc/autograd/custom_function.h>

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kEpsilon = 1e-12;  // added to squared norms, as torch does

Tensor Wide(const Tensor& x) { return x.to(at::promote_types(x.scalar_type(), torch::kFloat32)); }

// With s, t a row of each, c = s t / (|s| |t|):  d c / d s = t / (|s| |t|) - c s / |s|^2. Row by row, three numbers are
// kept.
struct CosineLossFunction : torch::autograd::Function<CosineLossFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& student, const Tensor& teacher) {
    const Tensor s = Wide(student), t = Wide(teacher);
    const Tensor square = (s * s).sum(1, /*keepdim=*/true).add_(kEpsilon);
    const Tensor of_both = (t * t).sum(1, /*keepdim=*/true).add_(kEpsilon).mul_(square).rsqrt_();
    const Tensor cosine = (s * t).sum(1, /*keepdim=*/true).mul_(of_both);
    context->save_for_backward({student, teacher, of_both, cosine / square});
    return (1 - cosine).sum();
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &student = saved[0], &teacher = saved[1], &of_teacher = saved[2], &of_student = saved[3];
    Tensor gradient = Wide(student) * (of_student * grads[0]);
    gradient.addcmul_(Wide(teacher), of_teacher * grads[0], -1);
    return {gradient.to(student.scalar_type()), Tensor()};
  }
};

}  // namespace

Tensor CosineLoss(const Tensor& student, const Tensor& teacher) {
  TORCH_CHECK(student.dim() == 2 && student.sizes() == teacher.sizes(), "hidden states ", student.sizes(), " and ",
              teacher.sizes(), " cannot be compared by their cosine");
  return CosineLossFunction::apply(student, teacher.detach());
}

}  // namespace distill
