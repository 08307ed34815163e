#include "libdistill/train/train_step.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/busy_phase.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/metrics/record_sums.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/failed_pass.h"
#include "libdistill/tensor/peak_memory.h"
#include "libdistill/tensor/random_state.h"

namespace distill {
namespace {

absl::Status CheckCounts(const std::vector<MicroStep>& micro_steps, size_t terms) {
  for (const MicroStep& micro_step : micro_steps) {
    if (micro_step.counts.size() == terms) continue;
    return absl::InvalidArgumentError(absl::StrCat("a micro-batch has ", micro_step.counts.size(), " counts, the task ",
                                                   terms, " loss terms: give one of each (Task::LossTerms)"));
  }
  return absl::OkStatus();
}

std::vector<const MicroStep*> WithLoss(const std::vector<MicroStep>& micro_steps) {
  std::vector<const MicroStep*> with_loss;
  for (const MicroStep& micro_step : micro_steps) {
    if (micro_step.has_loss()) with_loss.push_back(&micro_step);
  }
  return with_loss;
}

// "loss" first.
std::vector<std::pair<std::string, double>> InOrder(const std::vector<TermWeight>& terms,
                                                    std::map<std::string, double> means, double progress) {
  std::vector<std::pair<std::string, double>> named = {{kLossName, WeighMeans(terms, means, progress).value}};
  means.erase(kLossName);
  named.insert(named.end(), means.begin(), means.end());
  return named;
}

}  // namespace

absl::StatusOr<StepOutcome> TrainStep::Run(Task& task, const LearningRates& rates, double progress, absl::Status mine,
                                           const std::function<StopRequest()>& request) {
  std::vector<MicroStep> micro_steps;
  TrainingClock wait;
  wait.Resume();
  mine.Update(CatchTorch([&]() -> absl::Status {
    const BusyPhase phase(comm_, "reading data", ToldBusy::kWithNextBeat);
    DISTILL_ASSIGN_OR_RETURN(micro_steps, task.NextStep());
    return CheckCounts(micro_steps, agreed_.terms.size());
  }));
  StepOutcome outcome;
  DISTILL_RETURN_IF_ERROR(CountStep(micro_steps, wait.Seconds(), mine, outcome));
  if (loss_scale_ != nullptr) loss_scale_->StartStep(outcome.divisor);
  scale_ = ScaleOf(outcome, progress);
  mine = absl::OkStatus();
  const auto on_bucket = [&](size_t bucket) {
    if (!waits_for_norm() && outcome.divisor > 0 && mine.ok()) UpdateArrived(bucket, outcome, rates);
  };
  DISTILL_RETURN_IF_ERROR(Backward(micro_steps, mine, on_bucket));
  absl::StatusOr<MeansAndRequest> step = MeansOverRanks(comm_, agreed_.names, sums_, mine, request());
  sums_.Clear();
  if (!step.ok()) return step.status();
  outcome.means = InOrder(agreed_.terms, std::move(step->means), progress);
  outcome.request = step->request;
  if (outcome.divisor == 0) return outcome;
  outcome.grad_norm = reducer_.buckets().Norm() / Divisor(outcome);
  DISTILL_RETURN_IF_ERROR(NameNonFinite(micro_steps, outcome));
  DISTILL_RETURN_IF_ERROR(waits_for_norm() ? UpdateAll(outcome, rates) : GatherArrived(outcome));
  return outcome;
}

// Over all ranks; an error of any rank is returned on all.
absl::Status TrainStep::CountStep(const std::vector<MicroStep>& micro_steps, double waited_seconds,
                                  const absl::Status& mine, StepOutcome& outcome) {
  const size_t terms = agreed_.terms.size();
  // Then tokens, samples, ranks that failed, and how long each rank waited: the longest counts, which is no sum.
  std::vector<int64_t> counts(terms + 3 + static_cast<size_t>(comm_.world_size()), 0);
  for (const MicroStep& micro_step : micro_steps) {
    if (!mine.ok()) break;
    for (size_t term = 0; term < terms; ++term) counts[term] += micro_step.counts[term];
    counts[terms] += micro_step.num_tokens;
    counts[terms + 1] += micro_step.num_samples;
  }
  counts[terms + 2] = mine.ok() ? 0 : 1;
  counts[terms + 3 + static_cast<size_t>(comm_.rank())] = static_cast<int64_t>(waited_seconds * 1e6);
  DISTILL_RETURN_IF_ERROR(comm_.AllReduce(counts.data(), counts.data(), static_cast<int64_t>(counts.size()),
                                          DType::kInt64, ReduceOp::kSum));
  if (counts[terms + 2] > 0) return Agree(comm_, mine);
  outcome.tokens = counts[terms];
  outcome.samples = counts[terms + 1];
  const auto longest = std::max_element(counts.begin() + static_cast<int64_t>(terms) + 3, counts.end());
  outcome.data_wait = {.seconds = static_cast<double>(*longest) / 1e6,
                       .rank = static_cast<int>(longest - counts.begin()) - static_cast<int>(terms) - 3};
  counts.resize(terms);
  for (const int64_t count : counts) {
    if (outcome.divisor == 0) outcome.divisor = count;
  }
  outcome.counts = std::move(counts);
  return absl::OkStatus();
}

PassScale TrainStep::ScaleOf(const StepOutcome& outcome, double progress) const {
  PassScale scale{.gradient_scale = loss_scale_ != nullptr ? loss_scale_->factor() : 1.0, .progress = progress};
  for (size_t term = 0; term < agreed_.terms.size(); ++term) {
    const int64_t count = outcome.counts[term];
    const double share = count > 0 ? static_cast<double>(outcome.divisor) / static_cast<double>(count) : 0;
    scale.factors.push_back(agreed_.terms[term].At(progress) * share);
  }
  return scale;
}

absl::Status TrainStep::Backward(const std::vector<MicroStep>& micro_steps, absl::Status& mine,
                                 const std::function<void(size_t)>& on_bucket) {
  const std::vector<const MicroStep*> with_loss = WithLoss(micro_steps);
  int64_t rounds = static_cast<int64_t>(with_loss.size());
  if (reducer_.sums_each_pass() || models_.any()) {
    DISTILL_RETURN_IF_ERROR(comm_.AllReduce(&rounds, &rounds, 1, DType::kInt64, ReduceOp::kMax));
  }
  if (!reducer_.sums_each_pass()) {
    reducer_.StartStep();
    for (int64_t round = 0; round < rounds; ++round) {
      std::optional<GradientReducer::NoSync> no_sync;
      if (round + 1 < static_cast<int64_t>(with_loss.size())) no_sync.emplace(reducer_);
      RunRound(with_loss, round, mine);
    }
    // Also after a failure: the others have sent buckets, and wait for this rank's.
    return reducer_.Finish(mine, on_bucket);
  }
  for (int64_t round = 0; round < rounds; ++round) {
    reducer_.StartStep(/*adds=*/round > 0);
    RunRound(with_loss, round, mine);
    const bool is_last = round + 1 == rounds;
    DISTILL_RETURN_IF_ERROR(reducer_.Finish(mine, is_last ? on_bucket : nullptr));
  }
  return absl::OkStatus();
}

void TrainStep::RunRound(const std::vector<const MicroStep*>& with_loss, int64_t round, absl::Status& mine) {
  if (!mine.ok()) return;
  const int64_t rounds = static_cast<int64_t>(with_loss.size());
  mine = CatchTorch([&]() -> absl::Status {
    if (round >= rounds) return models_.Skip(/*trains=*/true), absl::OkStatus();
    const MicroStep& micro_step = *with_loss[static_cast<size_t>(round)];
    const absl::Status ran =
        CatchTorch([&] { return models_.RunOnce(/*trains=*/true, [&] { return RunMicroStep(micro_step); }); });
    if (absl::IsResourceExhausted(ran)) return WithSizes(ran, micro_step.Describe(round, rounds));
    return absl::IsInternal(ran) ? Annotate(ran, WhereItFailed(micro_step.Describe(round, rounds), micro_step)) : ran;
  });
  if (!mine.ok()) models_.Abort(mine);
}

absl::Status TrainStep::WithSizes(const absl::Status& error, std::string which) {
  const c10::Device device = reducer_.buckets().parameters().front().tensor.device();
  return trained_.Explained(error, {{std::move(which), MemoryInUseBytes(device), PeakMemoryBytes(device)}});
}

std::string TrainStep::WhereItFailed(const std::string& which, const MicroStep& micro_step) {
  if (models_.any()) return which;  // their passes need the other ranks
  const torch::NoGradGuard no_grad;
  const std::string module = WhereItThrows(trained_.module(), [&] { micro_step.forward(scale_); });
  return absl::StrCat(which, ", ", module.empty() ? "in the backward pass" : module);
}

absl::Status TrainStep::RunMicroStep(const MicroStep& micro_step) {
  const Losses losses = micro_step.forward(scale_);
  DISTILL_ASSIGN_OR_RETURN(const torch::Tensor total, Total(losses, micro_step.counts));
  for (const LossTerm& term : losses.terms) {
    if (term.count > 0) sums_.Add(term);
  }
  if (loss_scale_ == nullptr) {
    total.backward();
  } else {
    total.backward(torch::full_like(total, loss_scale_->factor()));
  }
  return absl::OkStatus();
}

absl::StatusOr<torch::Tensor> TrainStep::Total(const Losses& losses, const std::vector<int64_t>& counts) const {
  torch::Tensor total = losses.total;
  for (size_t i = 0; i < agreed_.terms.size(); ++i) {
    const TermWeight& term = agreed_.terms[i];
    const LossTerm* found = losses.Find(term.name);
    if (found == nullptr) {
      if (scale_.factors[i] == 0 || counts[i] == 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("a pass gave no loss term '", term.name, "', which the task names (Task::LossTerms)"));
    }
    if (found->count != counts[i]) {
      return absl::InvalidArgumentError(absl::StrCat("the loss term '", term.name, "' counted ", found->count,
                                                     " in a batch of ", counts[i],
                                                     ": both must be the same, or means are wrong"));
    }
    if (losses.total.defined() || scale_.factors[i] == 0 || found->count == 0) continue;
    const torch::Tensor scaled = scale_.factors[i] == 1 ? found->sum : found->sum * scale_.factors[i];
    total = total.defined() ? total + scaled : scaled;
  }
  if (total.defined()) return total;
  return absl::InvalidArgumentError("a pass gave no loss to differentiate");
}

double TrainStep::Divisor(const StepOutcome& outcome) const {
  return static_cast<double>(outcome.divisor) * (loss_scale_ != nullptr ? loss_scale_->factor() : 1.0);
}

// What is decided from here on follows from values that are the same on every rank.

void TrainStep::UpdateArrived(size_t bucket, StepOutcome& outcome, const LearningRates& rates) {
  if (!outcome.non_finite.empty()) return;
  if (!std::isfinite(reducer_.buckets().bucket(bucket).sum_of_squares)) {
    outcome.non_finite = "a gradient";  // NameNonFinite finds which
    return;
  }
  if (outcome.updated_buckets == 0) {
    trained_.optimizer().StartStep(rates, Divisor(outcome));
  }
  ++outcome.updated_buckets;
  outcome.update.Update(CatchTorch([&] { trained_.optimizer().Update(reducer_.buckets(), bucket); }));
}

absl::Status TrainStep::NameNonFinite(const std::vector<MicroStep>& micro_steps, StepOutcome& outcome) {
  if (!std::isfinite(outcome.grad_norm)) {
    // Where gradients are sharded, another rank has it.
    int64_t first = static_cast<int64_t>(reducer_.buckets().parameters().size());
    outcome.update.Update(CatchTorch([&] { first = static_cast<int64_t>(reducer_.buckets().FirstNonFinite()); }));
    DISTILL_RETURN_IF_ERROR(comm_.AllReduce(&first, &first, 1, DType::kInt64, ReduceOp::kMin));
    const auto& parameters = reducer_.buckets().parameters();
    const bool found = first < static_cast<int64_t>(parameters.size());
    // Finite values may have squares whose sum is not.
    outcome.non_finite = found ? absl::StrCat("the gradient of ", parameters[static_cast<size_t>(first)].name)
                               : "the norm of the gradients";
  }
  if (std::isfinite(outcome.means[0].second)) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(outcome.non_finite, FindBadLoss(micro_steps));
  return absl::OkStatus();
}

absl::StatusOr<std::string> TrainStep::FindBadLoss(const std::vector<MicroStep>& micro_steps) {
  const std::vector<const MicroStep*> with_loss = WithLoss(micro_steps);
  int64_t rounds = static_cast<int64_t>(with_loss.size());
  DISTILL_RETURN_IF_ERROR(comm_.AllReduce(&rounds, &rounds, 1, DType::kInt64, ReduceOp::kMax));
  absl::StatusOr<std::string> mine = absl::UnknownError("not looked");
  const absl::Status looked = CatchTorch([&] { return (mine = BadMicroStep(with_loss, rounds)).status(); });
  if (!looked.ok()) models_.Abort(looked);
  DISTILL_RETURN_IF_ERROR(Agree(comm_, looked));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> all, GatherTexts(comm_, *mine));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty())
      return absl::StrCat("the loss of ", comm_.Describe(static_cast<int>(rank)), " (", all[rank], ")");
  }
  return "the loss";  // each is finite, and their sum is not
}

absl::StatusOr<std::string> TrainStep::BadMicroStep(const std::vector<const MicroStep*>& with_loss, int64_t rounds) {
  const torch::NoGradGuard no_grad;
  const c10::Device device = reducer_.buckets().parameters().front().tensor.device();
  const RandomStateScope as_before(device, RandomState(device));
  std::string found;
  for (int64_t round = 0; round < rounds; ++round) {
    if (round >= static_cast<int64_t>(with_loss.size())) {
      models_.Skip(/*trains=*/false);
      continue;
    }
    const MicroStep& micro_step = *with_loss[static_cast<size_t>(round)];
    bool is_bad = false;
    std::string module;
    DISTILL_RETURN_IF_ERROR(models_.RunOnce(/*trains=*/false, [&] {
      module = FirstNonFinite(trained_.module(), [&] {
        for (const LossTerm& term : micro_step.forward(scale_).terms) {
          is_bad = is_bad || (term.count > 0 && !std::isfinite(term.sum.item<double>()));
        }
      });
      return absl::OkStatus();
    }));
    if (!is_bad || !found.empty()) continue;
    found = absl::StrCat(micro_step.Describe(round, static_cast<int64_t>(with_loss.size())),
                         module.empty() ? "" : absl::StrCat("; ", module));
  }
  return found;
}

absl::Status TrainStep::UpdateAll(StepOutcome& outcome, const LearningRates& rates) {
  if (!outcome.non_finite.empty()) return absl::OkStatus();
  // As torch's clip_grad_norm_, whose 1e-6 keeps tiny norms from being divided by.
  const double clip = max_grad_norm_ > 0 ? std::min(1.0, max_grad_norm_ / (outcome.grad_norm + 1e-6)) : 1.0;
  trained_.optimizer().StartStep(rates, Divisor(outcome) / clip);
  std::vector<AsyncCall> gathers;
  for (size_t b = 0; b < reducer_.buckets().num_buckets(); ++b) {
    outcome.update.Update(CatchTorch([&] { trained_.optimizer().Update(reducer_.buckets(), b); }));
    // Also after a failure here, for the others'; while the next bucket is updated.
    if (trained_.flat() != nullptr) gathers.push_back(reducer_.Run(trained_.flat()->GatherCall(b)));
  }
  outcome.updated_buckets = reducer_.buckets().num_buckets();
  for (const AsyncCall& gather : gathers) DISTILL_RETURN_IF_ERROR(gather.Wait());
  return absl::OkStatus();
}

// Not before ranks have agreed that none of them failed: they would gather different buckets.
absl::Status TrainStep::GatherArrived(const StepOutcome& outcome) {
  for (size_t b = 0; trained_.flat() != nullptr && b < outcome.updated_buckets; ++b) {
    DISTILL_RETURN_IF_ERROR(trained_.flat()->GatherCall(b)(comm_));
  }
  return absl::OkStatus();
}

}  // namespace distill
