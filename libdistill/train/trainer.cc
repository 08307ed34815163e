#include "libdistill/train/trainer.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/shard/model_blocks.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/evaluation.h"
#include "libdistill/train/schedule.h"
#include "libdistill/train/trainer_impl.h"

namespace distill {
namespace {

constexpr int64_t kMaxSkippedInARow = 5;

}  // namespace

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::~Trainer() = default;

void Trainer::AddObserver(std::shared_ptr<Observer> observer) { impl_->observers.push_back(std::move(observer)); }

absl::StatusOr<TrainResult> Trainer::Fit(Task& task) {
  impl_->task = &task;
  absl::StatusOr<TrainResult> result = impl_->Fit();
  impl_->task = nullptr;
  return result;
}

absl::StatusOr<TrainResult> Trainer::Impl::Fit() {
  absl::Status trained = CatchTorch([this] { return Prepare(); });
  runtime = {};
  runtime.Resume();
  if (trained.ok()) {
    SetErrorContext([this] { return absl::StrCat("step ", state.step + 1); });
    trained = CatchTorch([this] { return Loop(); });
  }
  absl::StatusOr<TrainResult> result = absl::UnknownError("not finished");
  if (trained.ok()) trained = CatchTorch([&] { return (result = Finish()).status(); });
  if (!trained.ok()) result = trained;
  task->Stop();
  epochs.reset();  // it asks the task
  reducer.reset();
  optimizer.reset();
  if (const absl::Status whole = result.ok() ? Unshard() : absl::OkStatus(); !whole.ok()) result = whole;
  SetErrorContext(nullptr);
  interruption.reset();
  flat.reset();
  return result;
}

void Trainer::Impl::SetErrorContext(const std::function<std::string()>& context) {
  comm().SetErrorContext(context);
  Sharded().SetErrorContext(context);
}

TensorState Trainer::Impl::Tensors() const {
  TensorState tensors = optimizer->State();
  for (const auto& [name, buffer] : BufferState(*module)) tensors.emplace(name, SpreadTensor::Whole(buffer));
  return tensors;
}

absl::Status Trainer::Impl::Loop() {
  const Schedule schedule(options, total_steps);
  TrainStep step(comm(), terms, term_names, *reducer, *optimizer, flat.get(), Sharded(), options.max_grad_norm,
                 loss_scale.has_value() ? &*loss_scale : nullptr);
  absl::Status mine;  // what failed on this rank alone; the next agreement makes it everybody's
  bool is_last = false;
  if (EvaluatesFirst()) DISTILL_RETURN_IF_ERROR(EvaluateNow());
  module->train();
  clock.Resume();
  while (state.step < total_steps && !is_last) {
    // With a loss scale, steps that are left out do not count.
    const double learning_rate = schedule.LearningRate((loss_scale ? optimizer->steps() : state.step) + 1);
    const double scale = loss_scale ? loss_scale->scale() : 1.0;  // that the step has, whatever becomes of it
    DISTILL_ASSIGN_OR_RETURN(const StepOutcome outcome, step.Run(*task, learning_rate, mine, control.stops()));
    mine = outcome.update;
    DISTILL_RETURN_IF_ERROR(NoteStep(outcome));
    is_last = outcome.wants_to_stop || state.step == total_steps;
    mine.Update(CatchTorch([&] { return TellStep(outcome, learning_rate, scale, is_last); }));
    if (!EvaluationIsDue(is_last) && !SaveIsDue(is_last) && !is_last) continue;
    DISTILL_RETURN_IF_ERROR(Agree(comm(), mine));
    clock.Pause();
    DISTILL_RETURN_IF_ERROR(EvaluateAndSave(is_last));
    clock.Resume();
  }
  return absl::OkStatus();
}

// What is decided here follows from values that are the same on every rank.
absl::Status Trainer::Impl::NoteStep(const StepOutcome& outcome) {
  ++state.step;
  state.tokens += outcome.tokens;
  state.samples += outcome.samples;
  WillSayWhereItEnds();
  if (std::isfinite(outcome.means[0].second)) state.loss_sum += outcome.means[0].second;
  if (outcome.non_finite.empty()) {
    state.skipped_in_a_row = 0;
    if (loss_scale && outcome.divisor > 0) loss_scale->NoteGood();
    return absl::OkStatus();
  }
  ++state.skipped_in_a_row;
  const std::string what = absl::StrCat("step ", state.step, ": ", outcome.non_finite, " is not finite");
  if (loss_scale) return HalveLossScale(what);
  if (state.skipped_in_a_row >= kMaxSkippedInARow) {
    return absl::InternalError(absl::StrCat(what, ", for the ", kMaxSkippedInARow,
                                            "th step in a row: lower learning_rate or look at the data"));
  }
  const bool in_part = outcome.updated_buckets > 0;  // without clipping
  if (run.rank() == 0)
    LogWarning(absl::StrCat(what, in_part ? "; the update was made in part" : "; this update is left out"));
  return absl::OkStatus();
}

absl::Status Trainer::Impl::HalveLossScale(const std::string& what) {
  if (!loss_scale->Halve()) {
    return absl::InternalError(absl::StrCat(
        what, ", for the ", state.skipped_in_a_row, "th step in a row, and the loss scale is down to ",
        loss_scale->scale(), ": set bf16: true, which has float32's range, lower learning_rate, or look at the data"));
  }
  if (run.rank() == 0) {
    LogInfo(absl::StrCat(what, "; this update is left out, and the loss scale is ", loss_scale->scale(), " now"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MetricValues> Trainer::Evaluate(Evaluator& evaluator) { return impl_->Evaluate(evaluator); }

absl::StatusOr<MetricValues> Trainer::Impl::Evaluate(Evaluator& evaluator) {
  const auto tensors = module->parameters();
  if (!tensors.empty() && tensors[0].device() != run.device()) {
    return absl::FailedPreconditionError(
        "Evaluate: with zero_stage 3 the module is on the host until Fit shards it: evaluate in Fit, by the task's "
        "evaluator, or after it");
  }
  // After a Fit that left it sharded nobody would take part for a rank without a batch.
  if (flat == nullptr) DISTILL_RETURN_IF_ERROR(RequireWhole(*module));
  return EvaluateOverRanks(comm(), *module, Sharded(), run.device(), evaluator);
}

}  // namespace distill
