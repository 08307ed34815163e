#include "libdistill/train/trainer.h"
#include "libdistill/shard/model_blocks.h"

#include <chrono>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/shard/module_state.h"
#include "libdistill/task/distiller.h"
#include "libdistill/task/token_steps.h"
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

void Trainer::SetEvaluation(DataSharder sharder) { impl_->evaluation = std::move(sharder); }
void Trainer::SetModelWriter(ModelWriter writer) { impl_->model_writer = std::move(writer); }
void Trainer::SetActiveRows(const std::string& parameter, int64_t rows) { impl_->active_rows[parameter] = rows; }
double Trainer::gradient_scale() const { return impl_->loss_scale ? impl_->loss_scale->factor() : 1.0; }

absl::StatusOr<TrainResult> Trainer::Fit(DataSharder& sharder, TokenLoss loss) {
  TokenSteps source(sharder, loss, impl_->run.device());
  return impl_->Fit(source, {.evaluation_loss = std::move(loss)}, *this);
}

absl::StatusOr<TrainResult> Trainer::Fit(DataSharder& sharder, const Distiller& distiller) {
  const torch::nn::Module& module = *impl_->module;
  FitTask task{.evaluation_loss = distiller,
               .active_rows = distiller.TrainedRows(module),
               .fingerprint = distiller.Fingerprint()};
  if (distiller.IsStudent(module)) {
    task.model_writer = [distiller](const std::string& folder) { return distiller.SaveStudent(folder); };
    task.writes_in_turn = distiller.SavesInTurn();
  }
  const auto loss = [&](const TokenBatch& batch) { return distiller(batch, gradient_scale()); };
  TokenSteps source(sharder, loss, impl_->run.device());
  return impl_->Fit(source, std::move(task), *this);
}

absl::StatusOr<TrainResult> Trainer::Fit(StepSource& source) { return impl_->Fit(source, {}, *this); }

absl::StatusOr<TrainResult> Trainer::Impl::Fit(StepSource& source, FitTask what, Trainer& trainer) {
  task = std::move(what);
  absl::Status trained = CatchTorch([&] { return Prepare(source); });
  const StopWatch watch;
  if (trained.ok()) {
    SetErrorContext([this] { return absl::StrCat("step ", state.step + 1); });
    trained = CatchTorch([&] { return Loop(source, trainer); });
  }
  absl::StatusOr<TrainResult> result = trained.ok() ? Finish(trainer, watch.Seconds()) : trained;
  epochs.reset();  // it asks the source
  reducer.reset();
  optimizer.reset();
  if (const absl::Status whole = result.ok() ? Unshard() : absl::OkStatus(); !whole.ok()) result = whole;
  SetErrorContext(nullptr);
  interruption.reset();
  flat.reset();
  task = {};  // it holds the models
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

absl::Status Trainer::Impl::Loop(StepSource& source, Trainer& trainer) {
  DISTILL_ASSIGN_OR_RETURN(const Schedule schedule, Schedule::Create(options.lr_scheduler_type, options.learning_rate,
                                                                     options.warmup_ratio, total_steps));
  TrainStep step(comm(), *reducer, *optimizer, flat.get(), Sharded(), options.max_grad_norm,
                 loss_scale.has_value() ? &*loss_scale : nullptr);
  int64_t tokens_since_log = 0;
  StopWatch since_log;
  absl::Status mine;  // what failed on this rank alone; the next agreement makes it everybody's
  module->train();
  while (state.step < total_steps) {
    const double learning_rate = schedule.LearningRate(state.step + 1);
    const double scale = loss_scale ? loss_scale->scale() : 1.0;  // that the step has, whatever becomes of it
    DISTILL_ASSIGN_OR_RETURN(const StepOutcome outcome, step.Run(source, learning_rate, mine));
    mine = outcome.update;
    DISTILL_RETURN_IF_ERROR(NoteStep(outcome));
    tokens_since_log += outcome.tokens;
    const bool is_last = state.step == total_steps;
    if (IsDue(options.logging_steps) || (options.logging_steps > 0 && is_last)) {
      mine.Update(Log(outcome, learning_rate, scale, static_cast<double>(tokens_since_log) / since_log.Seconds()));
      tokens_since_log = 0;
      since_log = {};
    }
    const bool evaluates = IsDue(options.eval_steps) && !is_last;
    const bool saves = IsDue(options.save_steps) && !options.output_dir.empty();
    if (evaluates || saves || is_last) DISTILL_RETURN_IF_ERROR(Agree(comm(), mine));
    if (evaluates) DISTILL_RETURN_IF_ERROR(EvaluateNow(trainer));
    if (saves) DISTILL_RETURN_IF_ERROR(Save(source));
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
    if (loss_scale && outcome.loss_tokens > 0) loss_scale->NoteGood();
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

absl::Status Trainer::Impl::Log(const StepOutcome& outcome, double learning_rate, double scale,
                                double tokens_per_second) {
  if (log == nullptr) return absl::OkStatus();
  NamedValues values = outcome.means;
  values.emplace_back("grad_norm", outcome.grad_norm);
  values.emplace_back("learning_rate", learning_rate);
  values.emplace_back("epoch", epochs->EpochsOf(state.step));
  values.emplace_back("tokens_per_second", tokens_per_second);
  if (loss_scale) {
    values.emplace_back("loss_scale", scale);
    values.emplace_back("skipped_steps", static_cast<double>(state.step - optimizer->steps()));
  }
  return log->Train(state.step, values);
}

absl::Status Trainer::Impl::EvaluateNow(Trainer& trainer) {
  if (!evaluation.has_value()) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const auto means, trainer.Evaluate(*evaluation, task.evaluation_loss));
  last_evaluation.clear();
  for (const auto& [name, value] : means) last_evaluation.emplace_back(absl::StrCat("eval_", name), value);
  absl::Status written;
  if (log != nullptr) {
    NamedValues values = last_evaluation;
    values.emplace_back("epoch", epochs->EpochsOf(state.step));
    written = log->Evaluation(state.step, values);
  }
  return Agree(comm(), written);
}

absl::Status Trainer::Impl::Save(const StepSource& source) {
  DISTILL_RETURN_IF_ERROR(Agree(comm(), CatchTorch([&] {
                                  const ShardState position = source.state();
                                  state.epoch = position.epoch;
                                  state.row = position.row;
                                  state.data_seed = position.seed;
                                  state.updates = optimizer->steps();
                                  state.loss_scale = loss_scale ? loss_scale->scale() : 0;
                                  state.good_steps = loss_scale ? loss_scale->good_steps() : 0;
                                  state.gradient_order = reducer->order();
                                  return absl::OkStatus();
                                })));
  DISTILL_RETURN_IF_ERROR(BroadcastBuffers(comm(), *module));
  const auto write = [this](const std::string& folder) { return WriteModel(folder); };
  DISTILL_RETURN_IF_ERROR(WithModuleToSave(
      [&](ShardedBlocks* in_turn) { return SaveCheckpoint(run, options, Tensors(), in_turn, write, state); }));
  if (run.rank() == 0) {
    newest_checkpoint = CheckpointFolder(options.output_dir, state.step);
    how_to_go_on = HowToGoOn(options, newest_checkpoint);
    WillSayWhereItEnds();
  }
  return absl::OkStatus();
}

// Rank 0, which writes, gets weights that are shared out block by block; for a writer that may look at any of them, all
// of them.
absl::Status Trainer::Impl::WithModuleToSave(absl::FunctionRef<absl::Status(ShardedBlocks* in_turn)> body) {
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
  if (model_writer) return model_writer(folder);
  absl::Status written = absl::UnimplementedError("no writer");
  if (task.model_writer) written = task.model_writer(folder);
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

absl::StatusOr<TrainResult> Trainer::Impl::Finish(Trainer& trainer, double seconds) {
  DISTILL_RETURN_IF_ERROR(CatchTorch([&] { return EvaluateNow(trainer); }));
  if (!options.output_dir.empty()) {
    DISTILL_RETURN_IF_ERROR(WithModuleToSave([this](ShardedBlocks* in_turn) {
      const auto write = [this](const std::string& folder) { return WriteModel(folder); };
      return SaveTurns(comm(), {}, in_turn).Run([&](SaveTurns&) { return PublishFiles(options.output_dir, write); });
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
  values.emplace_back("epoch", epochs->EpochsOf(state.step));
  if (log != nullptr) log->Final(values);
  result.metrics.insert(values.begin(), values.end());
  return result;
}

absl::StatusOr<std::map<std::string, double>> Trainer::Evaluate(DataSharder& sharder, const TokenLoss& loss) {
  const auto parameters = impl_->module->parameters();
  if (!parameters.empty() && parameters[0].device() != impl_->run.device()) {
    return absl::FailedPreconditionError(
        "Evaluate: with zero_stage 3 the module is on the host until Fit shares it out: evaluate in Fit, by "
        "SetEvaluation, or after it");
  }
  // After a Fit that left it shared out nobody would take part for a rank without a batch.
  if (impl_->flat == nullptr) DISTILL_RETURN_IF_ERROR(RequireWhole(*impl_->module));
  return MeansOverData(impl_->comm(), *impl_->module, impl_->Sharded(), sharder, loss);
}

}  // namespace distill
