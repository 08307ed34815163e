#include "libdistill/train/adamw.h"

#include <ATen/ops/_fused_adamw.h>

namespace distill {

AdamW::AdamW(const std::vector<TrainedParameter>& parameters, const AdamWOptions& options) : options_(options) {
  torch::NoGradGuard no_grad;
  for (const TrainedParameter& parameter : parameters) {
    const torch::Tensor values = parameter.tensor.detach();
    const auto zeros = torch::zeros_like(values, torch::TensorOptions().dtype(torch::kFloat32));
    slots_.push_back({parameter, values.to(torch::kFloat32), zeros, zeros.clone()});
  }
}

void AdamW::Step(const GradientBuckets& gradients, double learning_rate, double divisor) {
  torch::NoGradGuard no_grad;
  ++steps_;
  // Two groups, one call each: LibTorch's fused kernel makes the whole update in one sweep over its tensors.
  for (const bool decays : {true, false}) {
    std::vector<torch::Tensor> masters, grads, exp_avgs, exp_avg_sqs, steps;
    for (size_t i = 0; i < slots_.size(); ++i) {
      const TrainedParameter& parameter = slots_[i].parameter;
      if (parameter.decays != decays || parameter.active_rows == 0) continue;
      masters.push_back(parameter.Active(slots_[i].master));
      grads.push_back(parameter.Active(gradients.gradient(i)));
      exp_avgs.push_back(parameter.Active(slots_[i].exp_avg));
      exp_avg_sqs.push_back(parameter.Active(slots_[i].exp_avg_sq));
      steps.push_back(torch::full({}, static_cast<double>(steps_), masters.back().options()));
    }
    if (masters.empty()) continue;
    const torch::Tensor scale = torch::full({1}, divisor, masters[0].options());
    at::_fused_adamw_(masters, grads, exp_avgs, exp_avg_sqs, /*max_exp_avg_sqs=*/{}, steps, learning_rate,
                      options_.beta1, options_.beta2, decays ? options_.weight_decay : 0.0, options_.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false, scale, /*found_inf=*/{});
  }
  RenewWorkingCopies();
}

std::map<std::string, torch::Tensor> AdamW::State() const {
  std::map<std::string, torch::Tensor> state;
  for (const Slot& slot : slots_) {
    state["master." + slot.parameter.name] = slot.master;
    state["exp_avg." + slot.parameter.name] = slot.exp_avg;
    state["exp_avg_sq." + slot.parameter.name] = slot.exp_avg_sq;
  }
  return state;
}

void AdamW::RenewWorkingCopies() {
  torch::NoGradGuard no_grad;
  for (Slot& slot : slots_) {
    if (!slot.master.is_alias_of(slot.parameter.tensor)) slot.parameter.tensor.detach().copy_(slot.master);
  }
}

}  // namespace distill
