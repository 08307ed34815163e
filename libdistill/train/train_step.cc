#include "libdistill/train/train_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

constexpr char kLoss[] = "loss";
constexpr size_t kNamesBytes = 256;

}  // namespace

absl::Status SumsOverRanks::Add(const LossSum& loss, int64_t expected_count) {
  if (loss.count != expected_count) {
    return absl::InvalidArgumentError(absl::StrCat("the loss counted ", loss.count, " tokens in a batch of ",
                                                   expected_count, ": both must be the same, or means are wrong"));
  }
  if (loss.count == 0) return absl::OkStatus();
  size_t name_bytes = sizeof(kLoss);
  for (const auto& [name, value] : loss.sums) name_bytes += name.size() + 1;
  if (name_bytes > kNamesBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the names of a loss's sums are longer than ", kNamesBytes, " bytes together: shorten them"));
  }
  const auto add = [this](const std::string& name, const torch::Tensor& value) {
    torch::Tensor& sum = sums_[name];
    const torch::Tensor term = value.detach().to(torch::kFloat64);
    sum = sum.defined() ? sum + term : term;
  };
  add(kLoss, loss.loss);
  for (const auto& [name, value] : loss.sums) add(name, value);
  return absl::OkStatus();
}

absl::Status SumsOverRanks::AgreeOnNames() {
  std::vector<std::string> mine;
  for (const auto& [name, sum] : sums_) {
    if (name != kLoss) mine.push_back(name);
  }
  std::string text;
  if (!sums_.empty()) text = absl::StrCat(kLoss, mine.empty() ? "" : "\n", absl::StrJoin(mine, "\n"));
  text.resize(kNamesBytes, '\0');
  std::string all(kNamesBytes * comm_.world_size(), '\0');
  DISTILL_RETURN_IF_ERROR(comm_.AllGather(text.data(), all.data(), kNamesBytes, DType::kUInt8));
  std::string longest;
  for (int rank = 0; rank < comm_.world_size(); ++rank) {
    const std::string theirs(all.c_str() + rank * kNamesBytes, strnlen(all.c_str() + rank * kNamesBytes, kNamesBytes));
    if (theirs.size() > longest.size()) longest = theirs;
  }
  has_agreed_ = !longest.empty();
  names_ = has_agreed_ ? absl::StrSplit(longest, '\n') : std::vector<std::string>{kLoss};
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::pair<std::string, double>>> SumsOverRanks::Finish(absl::Status mine, int64_t count) {
  if (!has_agreed_) DISTILL_RETURN_IF_ERROR(AgreeOnNames());
  DISTILL_ASSIGN_OR_RETURN(Totals totals, SumAll(mine));
  if (totals.failed == 0 && totals.unknown > 0) {  // a loss that has begun to report more
    DISTILL_RETURN_IF_ERROR(AgreeOnNames());
    DISTILL_ASSIGN_OR_RETURN(totals, SumAll(mine));
  }
  sums_.clear();
  if (totals.failed > 0) return Agree(comm_, mine);
  std::vector<std::pair<std::string, double>> means;
  for (size_t i = 0; i < names_.size(); ++i) {
    means.emplace_back(names_[i], totals.values[i] / static_cast<double>(std::max<int64_t>(1, count)));
  }
  return means;
}

absl::StatusOr<SumsOverRanks::Totals> SumsOverRanks::SumAll(absl::Status& mine) {
  std::vector<double> values(names_.size() + 2, 0.0);  // the last ones count ranks with other names, and that failed
  // A device reports here what went wrong on it since.
  mine.Update(CatchTorch([&] {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (const auto found = sums_.find(names_[i]); found != sums_.end()) values[i] = found->second.item<double>();
    }
    return absl::OkStatus();
  }));
  const auto is_known = [this](const auto& sum) { return std::count(names_.begin(), names_.end(), sum.first) > 0; };
  values[names_.size()] = std::all_of(sums_.begin(), sums_.end(), is_known) ? 0.0 : 1.0;
  values.back() = mine.ok() ? 0.0 : 1.0;
  DISTILL_RETURN_IF_ERROR(comm_.AllReduce(values.data(), values.data(), static_cast<int64_t>(values.size()),
                                          DType::kFloat64, ReduceOp::kSum));
  Totals totals{.unknown = values[names_.size()], .failed = values.back()};
  values.resize(names_.size());
  totals.values = std::move(values);
  return totals;
}

absl::StatusOr<StepOutcome> TrainStep::Run(StepSource& source, double learning_rate, absl::Status mine) {
  std::vector<MicroStep> micro_steps;
  mine.Update(CatchTorch([&] {
    micro_steps = source.NextStep();
    return absl::OkStatus();
  }));
  std::array<int64_t, 4> counts = {0, 0, 0, mine.ok() ? 0 : 1};  // the last one: ranks that failed
  for (const MicroStep& micro_step : micro_steps) {
    counts[0] += micro_step.loss_count;
    counts[1] += micro_step.num_tokens;
    counts[2] += micro_step.num_samples;
  }
  DISTILL_RETURN_IF_ERROR(comm_.AllReduce(counts.data(), counts.data(), counts.size(), DType::kInt64, ReduceOp::kSum));
  if (counts[3] > 0) return Agree(comm_, mine);
  StepOutcome outcome;
  outcome.loss_tokens = counts[0];
  outcome.tokens = counts[1];
  outcome.samples = counts[2];

  if (loss_scale_ != nullptr) loss_scale_->StartStep(outcome.loss_tokens);

  mine = absl::OkStatus();
  const auto on_bucket = [&](size_t bucket) {
    if (!waits_for_norm() && outcome.loss_tokens > 0 && mine.ok()) UpdateArrived(bucket, outcome, learning_rate);
  };
  DISTILL_RETURN_IF_ERROR(Backward(micro_steps, mine, on_bucket));
  DISTILL_ASSIGN_OR_RETURN(outcome.means, sums_.Finish(mine, outcome.loss_tokens));
  if (outcome.loss_tokens == 0) return outcome;
  outcome.grad_norm = reducer_.buckets().Norm() / Divisor(outcome);
  DISTILL_RETURN_IF_ERROR(NameNonFinite(outcome));
  DISTILL_RETURN_IF_ERROR(waits_for_norm() ? UpdateAll(outcome, learning_rate) : GatherArrived(outcome));
  return outcome;
}

absl::Status TrainStep::Backward(const std::vector<MicroStep>& micro_steps, absl::Status& mine,
                                 const std::function<void(size_t)>& on_bucket) {
  std::vector<const MicroStep*> with_loss;
  for (const MicroStep& micro_step : micro_steps) {
    if (micro_step.loss_count > 0) with_loss.push_back(&micro_step);
  }
  const bool sums_each = reducer_.options().zero_stage >= 2;  // there is no memory to add up before
  int64_t rounds = static_cast<int64_t>(with_loss.size());
  if (sums_each || models_.any()) {
    DISTILL_RETURN_IF_ERROR(comm_.AllReduce(&rounds, &rounds, 1, DType::kInt64, ReduceOp::kMax));
  }
  if (!sums_each) {
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
  mine = CatchTorch([&]() -> absl::Status {
    if (round < static_cast<int64_t>(with_loss.size())) {
      const MicroStep& micro_step = *with_loss[static_cast<size_t>(round)];
      return models_.RunOnce(/*trains=*/true, [&] { return RunMicroStep(micro_step); });
    }
    models_.Skip(/*trains=*/true);
    return absl::OkStatus();
  });
  if (!mine.ok()) models_.Abort(mine);
}

absl::Status TrainStep::RunMicroStep(const MicroStep& micro_step) {
  const LossSum loss = micro_step.forward();
  DISTILL_RETURN_IF_ERROR(sums_.Add(loss, micro_step.loss_count));
  if (loss_scale_ == nullptr) {
    loss.loss.backward();
  } else {
    loss.loss.backward(torch::full_like(loss.loss, loss_scale_->factor()));
  }
  return absl::OkStatus();
}

double TrainStep::Divisor(const StepOutcome& outcome) const {
  return static_cast<double>(outcome.loss_tokens) * (loss_scale_ != nullptr ? loss_scale_->factor() : 1.0);
}

// What is decided from here on follows from values that are the same on every rank.

void TrainStep::UpdateArrived(size_t bucket, StepOutcome& outcome, double learning_rate) {
  if (!outcome.non_finite.empty()) return;
  if (!std::isfinite(reducer_.buckets().bucket(bucket).sum_of_squares)) {
    outcome.non_finite = "a gradient";  // NameNonFinite finds which
    return;
  }
  if (outcome.updated_buckets == 0) {
    optimizer_.StartStep(learning_rate, Divisor(outcome));
  }
  ++outcome.updated_buckets;
  UpdateBucket(bucket, outcome);
}

void TrainStep::UpdateBucket(size_t bucket, StepOutcome& outcome) {
  outcome.update.Update(CatchTorch([&] {
    optimizer_.Update(reducer_.buckets(), bucket);
    return absl::OkStatus();
  }));
}

absl::Status TrainStep::NameNonFinite(StepOutcome& outcome) {
  if (!std::isfinite(outcome.grad_norm)) {
    // Where gradients are sharded, another rank has it.
    int64_t first = static_cast<int64_t>(reducer_.buckets().parameters().size());
    const absl::Status looked = CatchTorch([&] {
      first = static_cast<int64_t>(reducer_.buckets().FirstNonFinite());
      return absl::OkStatus();
    });
    outcome.update.Update(looked);
    DISTILL_RETURN_IF_ERROR(comm_.AllReduce(&first, &first, 1, DType::kInt64, ReduceOp::kMin));
    const auto& parameters = reducer_.buckets().parameters();
    const bool found = first < static_cast<int64_t>(parameters.size());
    // Finite values may have squares whose sum is not.
    outcome.non_finite = found ? absl::StrCat("the gradient of ", parameters[static_cast<size_t>(first)].name)
                               : "the norm of the gradients";
  }
  if (!std::isfinite(outcome.means[0].second)) outcome.non_finite = "the loss";
  return absl::OkStatus();
}

absl::Status TrainStep::UpdateAll(StepOutcome& outcome, double learning_rate) {
  if (!outcome.non_finite.empty()) return absl::OkStatus();
  // As torch's clip_grad_norm_, whose 1e-6 keeps tiny norms from being divided by.
  const double clip = max_grad_norm_ > 0 ? std::min(1.0, max_grad_norm_ / (outcome.grad_norm + 1e-6)) : 1.0;
  optimizer_.StartStep(learning_rate, Divisor(outcome) / clip);
  std::vector<AsyncCall> gathers;
  for (size_t b = 0; b < reducer_.buckets().num_buckets(); ++b) {
    UpdateBucket(b, outcome);
    // Also after a failure here, for the others'; while the next bucket is updated.
    if (flat_ != nullptr) gathers.push_back(reducer_.Run(flat_->GatherCall(b)));
  }
  outcome.updated_buckets = reducer_.buckets().num_buckets();
  for (const AsyncCall& gather : gathers) DISTILL_RETURN_IF_ERROR(gather.Wait());
  return absl::OkStatus();
}

// Not before ranks have agreed that none of them failed: they would gather different buckets.
absl::Status TrainStep::GatherArrived(const StepOutcome& outcome) {
  for (size_t b = 0; flat_ != nullptr && b < outcome.updated_buckets; ++b) {
    DISTILL_RETURN_IF_ERROR(flat_->GatherCall(b)(comm_));
  }
  return absl::OkStatus();
}

}  // namespace distill
