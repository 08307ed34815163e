// What a Trainer does between steps and after the last: it tells observers, evaluates, saves, and publishes the model.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/metrics/record_writer.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/peak_memory.h"
#include "libdistill/train/trainer_impl.h"

namespace distill {

bool Trainer::Impl::IsDue(int64_t every) const { return every > 0 && state.step % every == 0; }

bool Trainer::Impl::EvaluationIsDue(bool is_last) {
  if (task->evaluator() == nullptr || options.eval_strategy == EvalStrategy::kNo) return false;
  const bool by_epoch = options.eval_strategy == EvalStrategy::kEpoch;
  return is_last || (by_epoch ? epochs->EndsEpoch(state.step) : IsDue(options.eval_steps));
}

bool Trainer::Impl::SaveIsDue(bool is_last) {
  if (options.output_dir.empty() || options.save_strategy == SaveStrategy::kNo) return false;
  if (options.save_strategy == SaveStrategy::kEpoch) return is_last || epochs->EndsEpoch(state.step);
  return IsDue(options.save_steps) || (is_last && options.save_steps > 0);
}

absl::Status Trainer::Impl::Tell(absl::FunctionRef<absl::Status(Observer&)> tell) {
  return CatchTorch([&] {
    absl::Status status;
    for (const auto& report : reports) status.Update(tell(*report));
    for (const auto& observer : observers) status.Update(tell(*observer));
    return status;
  });
}

absl::Status Trainer::Impl::TellStep(const StepOutcome& outcome, double learning_rate, double scale, bool is_last) {
  tokens_since_record += outcome.tokens;
  if (outcome.divisor > 0) record.Add(outcome.means);
  beside_losses = {
      {"grad_norm", outcome.grad_norm}, {"learning_rate", learning_rate}, {"epoch", epochs->EpochsOf(state.step)}};
  if (loss_scale) {
    beside_losses.emplace_back("loss_scale", scale);
    beside_losses.emplace_back("skipped_steps", static_cast<double>(state.step - optimizer->steps()));
  }
  StepRecord seen{state.step, total_steps, outcome.means};
  seen.values.insert(seen.values.end(), beside_losses.begin(), beside_losses.end());
  absl::Status status = Tell([&](Observer& observer) { return observer.OnStep(seen, control); });
  const bool is_due = IsDue(options.logging_steps) || (options.logging_steps > 0 && is_last);
  if (is_due || (options.logging_first_step && state.step == 1)) status.Update(Log());
  return status;
}

absl::Status Trainer::Impl::Log() {
  StepRecord since{state.step, total_steps, record.Take()};
  since.values.insert(since.values.end(), beside_losses.begin(), beside_losses.end());
  clock.Pause();
  if (tokens_since_record > 0) {  // a task need not count tokens
    const auto is_epoch = [](const auto& value) { return value.first == "epoch"; };
    since.values.emplace(std::find_if(since.values.begin(), since.values.end(), is_epoch) + 1, "tokens_per_second",
                         static_cast<double>(tokens_since_record) / clock.Seconds());
  }
  const absl::Status status = Tell([&](Observer& observer) { return observer.OnLog(since, control); });
  logged_step = state.step;
  tokens_since_record = 0;
  clock = {};
  clock.Resume();
  return status;
}

absl::Status Trainer::Impl::EvaluateAndSave(bool& is_last) {
  absl::Status evaluated;
  if (EvaluationIsDue(is_last)) {
    if (is_last) runtime.Pause();
    evaluated = EvaluateNow();
    if (is_last) runtime.Resume();
    if (evaluated.ok() && best->is_exhausted() && !is_last) {
      is_last = true;
      if (run.rank() == 0) LogInfo(absl::StrCat("training ends early, at step ", state.step, ": ", best->Text()));
      const bool logs = options.logging_steps > 0 && logged_step != state.step;
      DISTILL_RETURN_IF_ERROR(Agree(comm(), logs ? Log() : absl::OkStatus()));
    }
  }
  const bool keeps_best = options.best_model.load_best_model_at_end && best->step() == state.step;
  // Also after an evaluation that failed: the steps before it are not lost.
  if (SaveIsDue(is_last) || keeps_best) {
    const absl::Status saved = Save();
    if (evaluated.ok()) return saved;
  }
  return evaluated;
}

absl::Status Trainer::Impl::EvaluateNow() {
  DISTILL_ASSIGN_OR_RETURN(MetricValues metrics, Evaluate(*task->evaluator()));
  last_evaluation = {state.step, epochs->EpochsOf(state.step), std::move(metrics)};
  DISTILL_RETURN_IF_ERROR(
      Agree(comm(), Tell([&](Observer& observer) { return observer.OnEvaluate(last_evaluation, control); })));
  // The untrained model is no candidate: no checkpoint holds it.
  return state.step > 0 ? best->Note(state.step, last_evaluation.metrics) : absl::OkStatus();
}

absl::Status Trainer::Impl::Save() {
  DISTILL_RETURN_IF_ERROR(Agree(comm(), CatchTorch([this] {
                                  state.position = task->Position();
                                  state.updates = optimizer->steps();
                                  state.loss_scale = loss_scale ? loss_scale->scale() : 0;
                                  state.good_steps = loss_scale ? loss_scale->good_steps() : 0;
                                  state.gradient_order = reducer->order();
                                  record.SaveTo(state);
                                  best->SaveTo(state);
                                  return absl::OkStatus();
                                })));
  DISTILL_RETURN_IF_ERROR(BroadcastBuffers(comm(), *module));
  const auto write = [this](const std::string& folder) { return WriteModel(folder); };
  DISTILL_RETURN_IF_ERROR(WithModuleToSave(
      [&](ShardedBlocks* in_order) { return SaveCheckpoint(run, options, Tensors(), in_order, write, state); }));
  const SaveRecord saved{state.step, CheckpointFolder(options.output_dir, state.step)};
  if (best->step() == state.step) best_checkpoint = saved.folder;
  if (run.rank() == 0) {
    newest_checkpoint = saved.folder;
    how_to_resume = HowToResume(options, newest_checkpoint);
    WillSayWhereItEnds();
  }
  return Agree(comm(), Tell([&](Observer& observer) { return observer.OnSave(saved, control); }));
}

// Rank 0, which writes, gets sharded weights block by block; for a writer that may look at any of them, all
// of them.
absl::Status Trainer::Impl::WithModuleToSave(absl::FunctionRef<absl::Status(ShardedBlocks* in_order)> body) {
  const std::shared_ptr<ShardedBlocks> blocks = Sharded().trained;
  if (blocks == nullptr || !writes_whole) return body(blocks.get());
  DISTILL_RETURN_IF_ERROR(blocks->GatherWhole(/*keep=*/run.rank() == 0));
  const absl::Status status = body(nullptr);
  blocks->DropWhole();
  return status;
}

absl::Status Trainer::Impl::WriteModel(const std::string& folder) {
  const absl::Status written = task->SaveModel(*module, folder);
  return absl::IsUnimplemented(written) ? WriteWeights(*module, folder) : written;
}

absl::Status Trainer::Impl::LoadBest() {
  if (!options.best_model.load_best_model_at_end || best->step() == 0) return absl::OkStatus();
  if (run.rank() == 0) LogInfo(absl::StrCat("the trained model is that of the best evaluation: ", best->Text()));
  last_evaluation.metrics = best->metrics();
  if (best->step() == state.step) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(
      Annotate(RestoreTensors(run, best_checkpoint, Tensors()), "load_best_model_at_end, after the last step"));
  return UseRestoredTensors();
}

// Of the rank that has had most; plan/memory_plan.h foretells it.
absl::StatusOr<double> Trainer::Impl::PeakMemoryOfRanks() {
  double gib = 0;
  const absl::Status mine = CatchTorch([&] {
    gib = static_cast<double>(PeakMemoryBytes(run.device())) / (1 << 30);
    return absl::OkStatus();
  });
  DISTILL_RETURN_IF_ERROR(Agree(comm(), mine));
  DISTILL_RETURN_IF_ERROR(comm().AllReduce(&gib, &gib, 1, DType::kFloat64, ReduceOp::kMax));
  return gib;
}

absl::StatusOr<TrainResult> Trainer::Impl::Finish() {
  runtime.Pause();
  // A resumed run that had no step left.
  if (EvaluationIsDue(/*is_last=*/true) && last_evaluation.step != state.step) DISTILL_RETURN_IF_ERROR(EvaluateNow());
  DISTILL_RETURN_IF_ERROR(LoadBest());
  if (!options.output_dir.empty()) {
    DISTILL_RETURN_IF_ERROR(WithModuleToSave([this](ShardedBlocks* in_order) {
      const auto write = [this](const std::string& folder) { return WriteModel(folder); };
      return OrderedSave(comm(), {}, in_order).Run([&](OrderedSave&) {
        return PublishFiles(options.output_dir, write);
      });
    }));
  }

  const double seconds = runtime.Seconds();
  TrainResult result{.steps = state.step,
                     .train_loss = state.loss_sum / static_cast<double>(std::max<int64_t>(1, state.step)),
                     .train_runtime = seconds,
                     .metrics = {}};
  DISTILL_ASSIGN_OR_RETURN(const double peak_memory_gib, PeakMemoryOfRanks());
  NamedValues values = {{"train_runtime", seconds},
                        {"train_samples_per_second", static_cast<double>(state.samples - samples_before) / seconds},
                        {"train_tokens_per_second", static_cast<double>(state.tokens - tokens_before) / seconds},
                        {"train_loss", result.train_loss},
                        {"peak_memory_gib", peak_memory_gib}};
  DISTILL_RETURN_IF_ERROR(Agree(comm(), CatchTorch([&] {
                                  last_evaluation.epoch = epochs->EpochsOf(state.step);
                                  const NamedValues evaluation = RecordOf(last_evaluation);
                                  values.insert(values.end(), evaluation.begin(), evaluation.end());
                                  return Tell([&](Observer& observer) { return observer.OnEnd(values); });
                                })));
  result.metrics.insert(values.begin(), values.end());
  return result;
}

}  // namespace distill
