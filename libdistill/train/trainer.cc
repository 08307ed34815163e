#include "libdistill/train/trainer.h"
#include "libdistill/shard/model_blocks.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/peak_memory.h"
#include "libdistill/train/evaluation.h"
#include "libdistill/train/schedule.h"
#include "libdistill/train/trainer_impl.h"

namespace distill {
namespace {

constexpr int64_t kMaxSkippedInARow = 5;

class StopWatch {
 public:
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

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
  const StopWatch watch;
  if (trained.ok()) {
    SetErrorContext([this] { return absl::StrCat("step ", state.step + 1); });
    trained = CatchTorch([this] { return Loop(); });
  }
  absl::StatusOr<TrainResult> result = absl::UnknownError("not finished");
  if (trained.ok()) trained = CatchTorch([&] { return (result = Finish(watch.Seconds())).status(); });
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
  bool stops = false;
  module->train();
  clock.Resume();
  while (state.step < total_steps && !stops) {
    // With a loss scale, steps that are left out do not count.
    const double learning_rate = schedule.LearningRate((loss_scale ? optimizer->steps() : state.step) + 1);
    const double scale = loss_scale ? loss_scale->scale() : 1.0;  // that the step has, whatever becomes of it
    DISTILL_ASSIGN_OR_RETURN(const StepOutcome outcome, step.Run(*task, learning_rate, mine, control.stops()));
    mine = outcome.update;
    DISTILL_RETURN_IF_ERROR(NoteStep(outcome));
    stops = outcome.wants_to_stop;
    const bool is_last = stops || state.step == total_steps;
    mine.Update(CatchTorch([&] { return EndStep(outcome, learning_rate, scale, is_last); }));
    const bool evaluates = IsDue(options.eval_steps) && !is_last;
    const bool saves = options.save_steps > 0 && !options.output_dir.empty() && (IsDue(options.save_steps) || is_last);
    if (!evaluates && !saves && !is_last) continue;
    DISTILL_RETURN_IF_ERROR(Agree(comm(), mine));
    clock.Pause();
    if (evaluates) DISTILL_RETURN_IF_ERROR(EvaluateNow());
    if (saves) DISTILL_RETURN_IF_ERROR(Save());
    clock.Resume();
  }
  return absl::OkStatus();
}

// What observers see of it; their errors are this rank's alone.
absl::Status Trainer::Impl::EndStep(const StepOutcome& outcome, double learning_rate, double scale, bool is_last) {
  tokens_since_record += outcome.tokens;
  if (outcome.divisor > 0) record.Add(outcome.means);
  absl::Status status;
  for (const auto& observer : observers) {
    const StepRecord seen{state.step, total_steps, ValuesOf(outcome, outcome.means, learning_rate, scale)};
    status.Update(observer->OnStep(seen, control));
  }
  const bool is_due = IsDue(options.logging_steps) || (options.logging_steps > 0 && is_last);
  if (!is_due && !(options.logging_first_step && state.step == 1)) return status;
  NamedValues values = ValuesOf(outcome, record.Take(), learning_rate, scale);
  clock.Pause();
  status.Update(Log(values, static_cast<double>(tokens_since_record) / clock.Seconds()));
  tokens_since_record = 0;
  clock = {};
  clock.Resume();
  return status;
}

NamedValues Trainer::Impl::ValuesOf(const StepOutcome& outcome, NamedValues means, double learning_rate, double scale) {
  NamedValues values = std::move(means);
  values.emplace_back("grad_norm", outcome.grad_norm);
  values.emplace_back("learning_rate", learning_rate);
  values.emplace_back("epoch", epochs->EpochsOf(state.step));
  if (loss_scale) {
    values.emplace_back("loss_scale", scale);
    values.emplace_back("skipped_steps", static_cast<double>(state.step - optimizer->steps()));
  }
  return values;
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

absl::Status Trainer::Impl::Log(NamedValues values, double tokens_per_second) {
  if (tokens_per_second > 0) {  // a task need not count tokens
    const auto is_epoch = [](const auto& value) { return value.first == "epoch"; };
    values.emplace(std::find_if(values.begin(), values.end(), is_epoch) + 1, "tokens_per_second", tokens_per_second);
  }
  absl::Status status = log != nullptr ? log->Train(state.step, values) : absl::OkStatus();
  for (const auto& observer : observers) {
    status.Update(observer->OnLog({state.step, total_steps, values}, control));
  }
  return status;
}

absl::Status Trainer::Impl::EvaluateNow() {
  if (task->evaluator() == nullptr) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const MetricValues metrics, Evaluate(*task->evaluator()));
  last_evaluation.clear();
  for (const auto& [name, value] : metrics) last_evaluation.emplace_back(absl::StrCat("eval_", name), value);
  return Agree(comm(), CatchTorch([&] {
                 const double epoch = epochs->EpochsOf(state.step);
                 absl::Status mine;
                 if (log != nullptr) {
                   NamedValues values = last_evaluation;
                   values.emplace_back("epoch", epoch);
                   mine = log->Evaluation(state.step, values);
                 }
                 for (const auto& observer : observers) {
                   mine.Update(observer->OnEvaluate({state.step, epoch, metrics}, control));
                 }
                 return mine;
               }));
}

absl::Status Trainer::Impl::Save() {
  DISTILL_RETURN_IF_ERROR(Agree(comm(), CatchTorch([this] {
                                  state.position = task->Position();
                                  state.updates = optimizer->steps();
                                  state.loss_scale = loss_scale ? loss_scale->scale() : 0;
                                  state.good_steps = loss_scale ? loss_scale->good_steps() : 0;
                                  state.gradient_order = reducer->order();
                                  record.SaveTo(state);
                                  return absl::OkStatus();
                                })));
  DISTILL_RETURN_IF_ERROR(BroadcastBuffers(comm(), *module));
  const auto write = [this](const std::string& folder) { return WriteModel(folder); };
  DISTILL_RETURN_IF_ERROR(WithModuleToSave(
      [&](ShardedBlocks* in_order) { return SaveCheckpoint(run, options, Tensors(), in_order, write, state); }));
  if (run.rank() == 0) {
    newest_checkpoint = CheckpointFolder(options.output_dir, state.step);
    how_to_go_on = HowToGoOn(options, newest_checkpoint);
    WillSayWhereItEnds();
  }
  return Agree(comm(), CatchTorch([&] {
                 absl::Status mine;
                 const SaveRecord saved{state.step, CheckpointFolder(options.output_dir, state.step)};
                 for (const auto& observer : observers) mine.Update(observer->OnSave(saved, control));
                 return mine;
               }));
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

absl::Status Trainer::Impl::Unshard() {
  const std::shared_ptr<ShardedBlocks> blocks = Sharded().trained;
  if (blocks == nullptr || !options.whole_after_fit) return absl::OkStatus();
  const absl::Status whole = blocks->GatherWhole(/*keep=*/true);
  if (whole.ok()) gated->SetWeightGate(nullptr);
  // Where files were asked for they are on the disk by now.
  if (!absl::IsResourceExhausted(whole) || options.output_dir.empty()) return whole;
  if (run.rank() == 0) LogWarning(absl::StrCat("the module is left without its blocks' weights: ", whole.message()));
  return absl::OkStatus();
}

absl::Status Trainer::Impl::WriteModel(const std::string& folder) {
  const absl::Status written = task->SaveModel(*module, folder);
  return absl::IsUnimplemented(written) ? WriteWeights(*module, folder) : written;
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

absl::StatusOr<TrainResult> Trainer::Impl::Finish(double seconds) {
  DISTILL_RETURN_IF_ERROR(CatchTorch([this] { return EvaluateNow(); }));
  if (!options.output_dir.empty()) {
    DISTILL_RETURN_IF_ERROR(WithModuleToSave([this](ShardedBlocks* in_order) {
      const auto write = [this](const std::string& folder) { return WriteModel(folder); };
      return OrderedSave(comm(), {}, in_order).Run([&](OrderedSave&) {
        return PublishFiles(options.output_dir, write);
      });
    }));
  }

  TrainResult result;
  result.steps = state.step;
  result.train_loss = state.loss_sum / static_cast<double>(std::max<int64_t>(1, state.step));
  result.train_runtime = seconds;
  DISTILL_ASSIGN_OR_RETURN(const double peak_memory_gib, PeakMemoryOfRanks());
  NamedValues values = {{"train_runtime", seconds},
                        {"train_samples_per_second", static_cast<double>(state.samples - samples_before) / seconds},
                        {"train_tokens_per_second", static_cast<double>(state.tokens - tokens_before) / seconds},
                        {"train_loss", result.train_loss},
                        {"peak_memory_gib", peak_memory_gib}};
  values.insert(values.end(), last_evaluation.begin(), last_evaluation.end());
  DISTILL_RETURN_IF_ERROR(Agree(comm(), CatchTorch([&] {
                                  values.emplace_back("epoch", epochs->EpochsOf(state.step));
                                  if (log != nullptr) log->Final(values);
                                  absl::Status mine;
                                  for (const auto& observer : observers) mine.Update(observer->OnEnd(values));
                                  return mine;
                                })));
  result.metrics.insert(values.begin(), values.end());
  return result;
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
