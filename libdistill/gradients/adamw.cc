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

AdamWRun AdamW::Slot::RunFor(const torch::Tensor& gradient, const AdamWOptions& options) const {
  AdamWRun run;
  run.master = master.data_ptr<float>();
  run.exp_avg = exp_avg.data_ptr<float>();
  run.exp_avg_sq = exp_avg_sq.data_ptr<float>();
  run.gradient = gradient.data_ptr<float>();
  const bool has_decay_of_its_own =
      parameter.group >= 0 && options.groups[static_cast<size_t>(parameter.group)].weight_decay.has_value();
  run.decays = parameter.decays || has_decay_of_its_own;
  const int64_t active = parameter.Active(parameter.tensor).numel();
  run.count = std::clamp<int64_t>(active - part.begin, 0, part.count);
  if (has_working_copy()) {
    run.working = in_use().data_ptr();
    run.working_type = in_use().scalar_type() == torch::kHalf ? DType::kFloat16 : DType::kBFloat16;
  }
  return run;
}

void AdamW::StartStep(const LearningRates& rates, double divisor) {
  ++steps_;
  factors_.clear();
  for (int64_t group = -1; group < static_cast<int64_t>(options_.groups.size()); ++group) {
    const double decay = group < 0
                             ? options_.weight_decay
                             : options_.groups[static_cast<size_t>(group)].weight_decay.value_or(options_.weight_decay);
    factors_.push_back(
        FactorsOf(options_.beta1, options_.beta2, options_.epsilon, decay, rates.Of(group), divisor, steps_));
  }
}

void AdamW::Update(const GradientBuckets& gradients, size_t bucket) {
  torch::NoGradGuard no_grad;
  const std::vector<size_t>& members = gradients.bucket(bucket).parameters;
  std::vector<std::vector<AdamWRun>> runs(factors_.size());  // as factors_
  for (const size_t i : members) {
    const Slot& slot = slots_[i];
    if (slot.part.count == 0) continue;
    runs[static_cast<size_t>(slot.parameter.group + 1)].push_back(slot.RunFor(gradients.OwnGradient(i), options_));
  }
  for (size_t group = 0; group < runs.size(); ++group) {
    if (!runs[group].empty()) UpdateRuns(runs[group], factors_[group], slots_[members[0]].master.device());
  }
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
