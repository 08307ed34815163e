#include "libdistill/gradients/adamw.h"

#include <algorithm>

#include "libdistill/optim/update_runs.h"

namespace distill {

AdamW::AdamW(const std::vector<TrainedParameter>& parameters, const AdamWOptions& options) : options_(options) {
  torch::NoGradGuard no_grad;
  for (const TrainedParameter& parameter : parameters) {
    // Strided parameters get a master too: the sweep takes elements in the order of the gradients'.
    const torch::Tensor master = parameter.tensor.detach().to(torch::kFloat32).contiguous();
    slots_.push_back(
        {parameter, {0, master.numel()}, {}, master, torch::zeros_like(master), torch::zeros_like(master)});
  }
}

AdamW::AdamW(const std::vector<TrainedParameter>& parameters, const AdamWOptions& options, const ShardPlan& plan,
             int shard, const std::vector<torch::Tensor>& working, const std::vector<torch::Tensor>& masters)
    : options_(options) {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::vector<ShardPlan::Part> parts;
    for (int rank = 0; rank < plan.shards(); ++rank) parts.push_back(plan.OfParameter(i, rank));
    slots_.push_back({parameters[i], parts[shard], parts, masters[i], torch::zeros_like(masters[i]),
                      torch::zeros_like(masters[i]), working[i]});
  }
}

bool AdamW::Slot::has_working_copy() const {
  return !master.is_alias_of(in_use()) && in_use().is_contiguous() && in_use().scalar_type() != torch::kFloat32;
}

AdamWRun AdamW::Slot::RunFor(const torch::Tensor& gradient) const {
  AdamWRun run;
  run.master = master.data_ptr<float>();
  run.exp_avg = exp_avg.data_ptr<float>();
  run.exp_avg_sq = exp_avg_sq.data_ptr<float>();
  run.gradient = gradient.data_ptr<float>();
  run.decays = parameter.decays;
  const int64_t active = parameter.Active(parameter.tensor).numel();
  run.count = std::clamp<int64_t>(active - part.begin, 0, part.count);
  if (has_working_copy()) {
    run.working = in_use().data_ptr();
    run.working_type = in_use().scalar_type() == torch::kHalf ? DType::kFloat16 : DType::kBFloat16;
  }
  return run;
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
    if (slots_[i].part.count > 0) runs.push_back(slots_[i].RunFor(gradients.OwnGradient(i)));
  }
  UpdateRuns(runs, factors_, slots_[members[0]].master.device());
  for (const size_t i : members) {
    Slot& slot = slots_[i];
    const bool renewed = slot.has_working_copy() || slot.master.is_alias_of(slot.in_use());
    if (!renewed && slot.part.count > 0) slot.in_use().detach().copy_(slot.master);
    // A graph that still wants the old values is told so.
    slot.parameter.tensor.unsafeGetTensorImpl()->bump_version();
  }
}

std::map<std::string, SpreadTensor> AdamW::State() const {
  std::map<std::string, SpreadTensor> state;
  for (const Slot& slot : slots_) {
    state["master." + slot.parameter.name] = slot.Spread(slot.master);
    state["exp_avg." + slot.parameter.name] = slot.Spread(slot.exp_avg);
    state["exp_avg_sq." + slot.parameter.name] = slot.Spread(slot.exp_avg_sq);
  }
  return state;
}

void AdamW::RenewWorkingCopies() {
  torch::NoGradGuard no_grad;
  for (Slot& slot : slots_) {
    if (!slot.master.is_alias_of(slot.in_use())) slot.in_use().detach().copy_(slot.master);
  }
}

}  // namespace distill
