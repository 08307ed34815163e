#include "libdistill/train/adamw.h"

#include "libdistill/optim/update_runs.h"

namespace distill {

AdamW::AdamW(const std::vector<TrainedParameter>& parameters, const AdamWOptions& options) : options_(options) {
  torch::NoGradGuard no_grad;
  for (const TrainedParameter& parameter : parameters) {
    // Strided parameters get a master too: the sweep takes elements in the order of the gradients'.
    const torch::Tensor master = parameter.tensor.detach().to(torch::kFloat32).contiguous();
    slots_.push_back({parameter, master, torch::zeros_like(master), torch::zeros_like(master)});
  }
}

bool AdamW::Slot::has_working_copy() const {
  return !master.is_alias_of(parameter.tensor) && parameter.tensor.is_contiguous() &&
         parameter.tensor.scalar_type() != torch::kFloat32;
}

DType AdamW::Slot::working_type() const {
  return parameter.tensor.scalar_type() == torch::kHalf ? DType::kFloat16 : DType::kBFloat16;
}

void AdamW::StartStep(double learning_rate, double divisor) {
  ++steps_;
  factors_ = FactorsOf(options_.beta1, options_.beta2, options_.epsilon, options_.weight_decay, learning_rate, divisor,
                       steps_);
}

void AdamW::Update(const GradientBuckets& gradients, size_t bucket) {
  torch::NoGradGuard no_grad;
  const std::vector<size_t>& members = gradients.bucket(bucket).parameters;
  std::vector<AdamWRun> runs;
  for (const size_t i : members) {
    const Slot& slot = slots_[i];
    AdamWRun run;
    run.master = slot.master.data_ptr<float>();
    run.exp_avg = slot.exp_avg.data_ptr<float>();
    run.exp_avg_sq = slot.exp_avg_sq.data_ptr<float>();
    run.gradient = gradients.gradient(i).data_ptr<float>();
    run.decays = slot.parameter.decays;
    run.count = slot.parameter.Active(slot.master).numel();
    if (slot.has_working_copy()) {
      run.working = slot.parameter.tensor.data_ptr();
      run.working_type = slot.working_type();
    }
    runs.push_back(run);
  }
  UpdateRuns(runs, factors_, slots_[members[0]].master.device());
  for (const size_t i : members) {
    Slot& slot = slots_[i];
    const bool renewed = slot.has_working_copy() || slot.master.is_alias_of(slot.parameter.tensor);
    if (!renewed) slot.parameter.tensor.detach().copy_(slot.master);
    // A graph that still wants the old values is told so.
    slot.parameter.tensor.unsafeGetTensorImpl()->bump_version();
  }
}

void AdamW::Step(const GradientBuckets& gradients, double learning_rate, double divisor) {
  StartStep(learning_rate, divisor);
  for (size_t b = 0; b < gradients.num_buckets(); ++b) Update(gradients, b);
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
