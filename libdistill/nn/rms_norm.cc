#include "libdistill/nn/rms_norm.h"

#include <torch/csrc/autograd/custom_function.h>

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Saves the input and one number a row; the normalised rows are computed again in the backward.
//
// With y = x * r, r = 1 / sqrt(mean(x^2) + e), out = y * w, and g = grad * w:
//   grad_w = sum over rows of grad * y        grad_x = r * (g - y * mean(g * y))
struct RmsNormFunction : torch::autograd::Function<RmsNormFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight, double epsilon) {
    const Tensor wide = input.to(torch::kFloat32);
    const Tensor scale = at::linalg_vector_norm(wide, 2, {-1}, /*keepdim=*/true)
                             .square_()
                             .div_(static_cast<double>(input.size(-1)))
                             .add_(epsilon)
                             .rsqrt_();
    context->save_for_backward({input, weight, scale});
    Tensor normalised = (wide * scale).to(input.scalar_type());
    return normalised.mul_(weight);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &input = saved[0], &weight = saved[1], &scale = saved[2];
    const Tensor grad = grads[0].to(torch::kFloat32);
    Tensor normalised = input.to(torch::kFloat32) * scale;
    Tensor grad_weight, grad_input;
    Tensor product = grad * normalised;
    if (context->needs_input_grad(1)) grad_weight = product.sum(0).to(weight.scalar_type());
    if (context->needs_input_grad(0)) {
      const Tensor wide_weight = weight.to(torch::kFloat32);
      const Tensor mean = at::matmul(product, wide_weight).div_(static_cast<double>(input.size(-1))).unsqueeze_(-1);
      Tensor wide_grad = grad * wide_weight;
      wide_grad.sub_(normalised.mul_(mean)).mul_(scale);
      grad_input = wide_grad.to(input.scalar_type());
    }
    return {grad_input, grad_weight, Tensor()};
  }
};

}  // namespace

Tensor RmsNorm(const Tensor& input, const Tensor& weight, double epsilon) {
  return RmsNormFunction::apply(input, weight, epsilon);
}

}  // namespace distill
