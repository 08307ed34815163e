#include "libdistill/nn/dropout.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <mutex>
#include <optional>

#include "libdistill/nn/layer_sweep.h"
#include "libdistill/nn/sweep_type.h"
#include "libdistill/tensor/parallel.h"

namespace distill {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor Swept(const Dropping& dropping, const Tensor& x, const std::optional<Tensor>& residual) {
  const Tensor input = x.contiguous(), added = residual.has_value() ? residual->contiguous() : Tensor();
  Tensor output = at::empty_like(input);
  const DroppedElements work = {.dtype = *SweepType(input),
                                .dropping = dropping,
                                .size = input.numel(),
                                .input = input.const_data_ptr(),
                                .residual = added.defined() ? added.const_data_ptr() : nullptr,
                                .output = output.mutable_data_ptr()};
  ParallelFor((work.size + kDropBlock - 1) / kDropBlock, kSweepGrain / kDropBlock,
              [&](int64_t begin, int64_t end) { SweepsFor(work.dtype).drop(work, begin, end); });
  return output;
}

void KeepDropping(AutogradContext* context, const Dropping& dropping) {
  context->saved_data["seed"] = static_cast<int64_t>(dropping.seed);
  context->saved_data["threshold"] = static_cast<int64_t>(dropping.threshold);
  context->saved_data["scale"] = static_cast<double>(dropping.scale);
}

Dropping KeptDropping(AutogradContext* context) {
  return {.seed = static_cast<uint64_t>(context->saved_data["seed"].toInt()),
          .threshold = static_cast<uint32_t>(context->saved_data["threshold"].toInt()),
          .scale = static_cast<float>(context->saved_data["scale"].toDouble())};
}

struct LinearOfDroppedFunction : torch::autograd::Function<LinearOfDroppedFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, double p) {
    const Dropping dropping = DrawDropping(p);
    KeepDropping(context, dropping);
    context->save_for_backward({x, weight});
    return at::mm(Swept(dropping, x, std::nullopt), weight.t());
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    RequireFirstDerivative();
    const Dropping dropping = KeptDropping(context);
    const variable_list saved = context->get_saved_variables();
    Tensor of_x, of_weight;
    if (context->needs_input_grad(0)) of_x = Swept(dropping, at::mm(grads[0], saved[1]), std::nullopt);
    if (context->needs_input_grad(1)) of_weight = at::mm(grads[0].t(), Swept(dropping, saved[0], std::nullopt));
    return {of_x, of_weight, Tensor()};
  }
};

struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& residual, double p) {
    const Dropping dropping = DrawDropping(p);
    KeepDropping(context, dropping);
    context->saved_data["adds"] = residual.has_value();
    return Swept(dropping, x, residual);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    RequireFirstDerivative();
    const Dropping dropping = KeptDropping(context);
    return {Swept(dropping, grads[0], std::nullopt), context->saved_data["adds"].toBool() ? grads[0] : Tensor(),
            Tensor()};
  }
};

}  // namespace

Dropping DrawDropping(double p) {
  constexpr double kParts = 1 << 16;
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const double parts = std::round(p * kParts);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return {.seed = at::check_generator<at::CPUGeneratorImpl>(generator)->random64(),
          .threshold = static_cast<uint32_t>(parts),
          .scale = parts == kParts ? 0 : static_cast<float>(kParts / (kParts - parts))};
}

Tensor Dropout(const Tensor& x, double p) {
  if (p == 0) return x;
  // Which has no sweep.
  if (x.is_cpu() && x.scalar_type() == torch::kFloat16) return Dropout(x.to(torch::kFloat32), p).to(torch::kFloat16);
  return SweepType(x).has_value() ? DropoutFunction::apply(x, std::optional<Tensor>(), p)
                                  : at::dropout(x, p, /*train=*/true);
}

Tensor LinearOfDropped(const Tensor& x, const Tensor& weight, double p) {
  const bool sweeps = p > 0 && x.dim() == 2 && SweepType(x).has_value() && x.scalar_type() == weight.scalar_type();
  return sweeps ? LinearOfDroppedFunction::apply(x, weight, p) : at::linear(Dropout(x, p), weight);
}

Tensor AddDropped(const Tensor& residual, const Tensor& x, double p) {
  if (p == 0) return residual + x;
  const bool sweeps = SweepType(residual, x).has_value() && residual.sizes() == x.sizes();
  return sweeps ? DropoutFunction::apply(x, std::optional(residual), p) : residual + Dropout(x, p);
}

}  // namespace distill
