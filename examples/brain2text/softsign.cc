#include "examples/brain2text/softsign.h"

#include <torch/csrc/autograd/custom_function.h>

#include "examples/brain2text/feature_sweep.h"
#include "libdistill/tensor/parallel.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kGrain = 1 << 15;  // elements that a thread should have at least

size_t IndexOfType(const Tensor& x) { return x.scalar_type() == torch::kFloat32 ? 0 : 1; }

struct SoftsignFunction : torch::autograd::Function<SoftsignFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x) {
    ctx->save_for_backward({x});
    const Tensor y = at::empty_like(x);
    const SoftsignElements elements = {.input = x.const_data_ptr(), .output = y.mutable_data_ptr()};
    const auto sweep = FeatureSweepsOfThisCpu().softsign[IndexOfType(x)];
    ParallelFor(x.numel(), kGrain, [&](int64_t begin, int64_t end) { sweep(elements, begin, end); });
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    TORCH_CHECK(!torch::GradMode::is_enabled(), "second derivatives (create_graph) of softsign are not known");
    const Tensor x = ctx->get_saved_variables()[0], of_y = gradients[0].contiguous(), of_x = at::empty_like(x);
    const SoftsignElements elements = {
        .input = x.const_data_ptr(), .gradient = of_y.const_data_ptr(), .output = of_x.mutable_data_ptr()};
    const auto sweep = FeatureSweepsOfThisCpu().softsign_gradient[IndexOfType(x)];
    ParallelFor(x.numel(), kGrain, [&](int64_t begin, int64_t end) { sweep(elements, begin, end); });
    return {of_x};
  }
};

}  // namespace

Tensor PlainSoftsign(const Tensor& x) { return x / (x.abs() + 1); }

Tensor Softsign(const Tensor& x) {
  const bool has_sweep = x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kBFloat16;
  return x.is_cpu() && has_sweep ? SoftsignFunction::apply(x.contiguous()) : PlainSoftsign(x);
}

}  // namespace distill
