#include "libdistill/nn/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "libdistill/tensor/random_state.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Forward = std::function<Tensor(const Tensor&)>;

// A function that the graph can keep, and where the generator was when it ran.
struct KeptForward : torch::CustomClassHolder {
  KeptForward(Forward forward, Tensor random_state)
      : forward(std::move(forward)), random_state(std::move(random_state)) {}
  Forward forward;
  Tensor random_state;
};

struct RecomputedFunction : torch::autograd::Function<RecomputedFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& input, Forward forward) {
    context->save_for_backward({input});
    Tensor random_state = RandomState(input.device());
    Tensor output = forward(input);  // gradients are off here
    context->saved_data["forward"] =
        c10::IValue::make_capsule(c10::make_intrusive<KeptForward>(std::move(forward), std::move(random_state)));
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto kept = c10::static_intrusive_pointer_cast<KeptForward>(context->saved_data["forward"].toCapsule());
    const Tensor input = context->get_saved_variables()[0].detach().requires_grad_();
    {
      const torch::AutoGradMode with_gradients(true);
      Tensor output;
      {
        const RandomStateScope as_before(input.device(), kept->random_state);
        output = kept->forward(input);
      }
      // Parameters get theirs in this call, a leaf of the graph each; so does the input.
      torch::autograd::backward({output}, {grads[0]});
    }
    return {input.grad(), Tensor()};
  }
};

}  // namespace

Tensor Recomputed(Forward forward, const Tensor& input) {
  if (!torch::GradMode::is_enabled()) return forward(input);
  // Where what came before is frozen there would be no node in the graph, and no gradient for the parameters here.
  const Tensor start = input.requires_grad() ? input : input.detach().requires_grad_();
  return RecomputedFunction::apply(start, std::move(forward));
}

}  // namespace distill
