#include "libdistill/train/trainer.h"

#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/metrics/training_log.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/distiller.h"
#include "libdistill/train/epochs.h"
#include "libdistill/train/evaluation.h"
#include "libdistill/train/module_state.h"
#include "libdistill/train/schedule.h"
#include "libdistill/train/token_steps.h"
#include "libdistill/train/train_step.h"
#include "libdistill/train/trainer_options.h"
#include "libdistill/train/trainer_state.h"

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

struct Trainer::Impl {
  Impl(RunContext& run, std::shared_ptr<torch::nn::Module> module, const TrainerOptions& options)
      : run(run), module(std::move(module)), options(options) {}

  RunContext& run;
  std::shared_ptr<torch::nn::Module> module;
  TrainerOptions options;
  std::map<std::string, int64_t> active_rows;
  ModelWriter model_writer;
  std::optional<DataSharder> evaluation;
  TokenLoss evaluation_loss;

  // Made by Fit.
  std::unique_ptr<AdamW> optimizer;
  std::unique_ptr<GradientBuckets> buckets;
  std::unique_ptr<TrainingLog> log;  // rank 0 only
  std::optional<EpochCounter> epochs;
  TrainerState state;
  int64_t total_steps = 0;
  int64_t samples_before = 0, tokens_before = 0;  // of the run that this one resumes
  std::vector<std::pair<std::string, double>> last_evaluation;

  Communicator& comm() { return run.communicator(); }
  bool IsDue(int64_t every) const { return every > 0 && state.step % every == 0; }
  TensorState Tensors() const;

  absl::Status Prepare(StepSource& source);
  absl::Status MakeOptimizer();
  absl::Status Resume(StepSource& source);
  absl::Status OpenLog();
  absl::Status Loop(StepSource& source, Trainer& trainer);
  absl::Status NoteStep(const StepOutcome& outcome);
  absl::Status Log(const StepOutcome& outcome, double learning_rate, double tokens_per_second);
  absl::Status EvaluateNow(Trainer& trainer);
  absl::Status Save(const StepSource& source);
  absl::Status WriteModel(const std::string& folder);
  absl::StatusOr<TrainResult> Finish(Trainer& trainer, double seconds);
};

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::~Trainer() = default;

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(RunContext& run, std::shared_ptr<torch::nn::Module> module,
                                                         const TrainerOptions& options) {
  absl::Status mine = module == nullptr ? absl::InvalidArgumentError("a trainer needs a module") : absl::OkStatus();
  mine.Update(CheckTrainerOptions(options));
  if (mine.ok()) {
    mine = CatchTorch([&] {
      module->to(run.device());
      return CheckBuffers(*module);
    });
  }
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), mine));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), FingerprintOf(*module, run.device(), options)));
  DISTILL_RETURN_IF_ERROR(CatchTorch([&]() -> absl::Status {
    const torch::NoGradGuard no_grad;
    DISTILL_RETURN_IF_ERROR(BroadcastParameters(run.communicator(), *module));
    return BroadcastBuffers(run.communicator(), *module);
  }));
  return std::unique_ptr<Trainer>(new Trainer(std::make_unique<Impl>(run, std::move(module), options)));
}

void Trainer::SetEvaluation(DataSharder sharder) { impl_->evaluation = std::move(sharder); }
void Trainer::SetModelWriter(ModelWriter writer) { impl_->model_writer = std::move(writer); }
void Trainer::SetActiveRows(const std::string& parameter, int64_t rows) { impl_->active_rows[parameter] = rows; }

absl::StatusOr<TrainResult> Trainer::Fit(DataSharder& sharder, TokenLoss loss) {
  impl_->evaluation_loss = loss;
  TokenSteps source(sharder, std::move(loss));
  return Fit(source);
}

absl::StatusOr<TrainResult> Trainer::Fit(DataSharder& sharder, const Distiller& distiller) {
  const std::map<std::string, int64_t> rows = distiller.TrainedRows(*impl_->module);
  impl_->active_rows.insert(rows.begin(), rows.end());  // what SetActiveRows said counts
  return Fit(sharder, TokenLoss(distiller));
}

absl::StatusOr<TrainResult> Trainer::Fit(StepSource& source) {
  Impl& impl = *impl_;
  DISTILL_RETURN_IF_ERROR(impl.Prepare(source));
  impl.comm().SetErrorContext([&impl] { return absl::StrCat("step ", impl.state.step + 1); });
  const StopWatch watch;
  const absl::Status trained = CatchTorch([&] { return impl.Loop(source, *this); });
  absl::StatusOr<TrainResult> result = trained.ok() ? impl.Finish(*this, watch.Seconds()) : trained;
  impl.comm().SetErrorContext(nullptr);
  impl.epochs.reset();  // it asks the source
  return result;
}

TensorState Trainer::Impl::Tensors() const {
  TensorState tensors = optimizer->State();
  tensors.merge(BufferState(*module));
  return tensors;
}

absl::Status Trainer::Impl::Prepare(StepSource& source) {
  state = {};
  epochs.emplace([&source](int64_t epoch) { return source.steps_in_epoch(epoch); });
  int64_t first_epoch = 0;
  const absl::Status mine = CatchTorch([&] {
    first_epoch = source.steps_in_epoch(0);
    total_steps = options.max_steps > 0 ? options.max_steps : epochs->StepsOf(options.num_train_epochs);
    return MakeOptimizer();
  });
  DISTILL_RETURN_IF_ERROR(Agree(comm(), mine));
  // Ranks that disagree here have other data, and would wait for each other in vain.
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(comm(), {{"the number of steps", absl::StrCat(total_steps)},
                                                         {"steps of the first epoch", absl::StrCat(first_epoch)}}));
  torch::manual_seed(options.seed + static_cast<uint64_t>(run.rank()));  // dropout of ranks must not be alike
  if (WantsToResume(options)) DISTILL_RETURN_IF_ERROR(Resume(source));
  samples_before = state.samples;
  tokens_before = state.tokens;
  return OpenLog();
}

absl::Status Trainer::Impl::MakeOptimizer() {
  DISTILL_ASSIGN_OR_RETURN(const std::vector<TrainedParameter> parameters, CollectParameters(*module, active_rows));
  // The optimizer first: it keeps the float32 values as masters when the module becomes bfloat16.
  optimizer = std::make_unique<AdamW>(parameters, AdamWOptions{.beta1 = options.adam_beta1,
                                                               .beta2 = options.adam_beta2,
                                                               .epsilon = options.adam_epsilon,
                                                               .weight_decay = options.weight_decay});
  if (options.bf16) module->to(torch::kBFloat16);
  optimizer->RenewWorkingCopies();
  buckets = std::make_unique<GradientBuckets>(parameters, options.bucket_bytes);
  return absl::OkStatus();
}

absl::Status Trainer::Impl::Resume(StepSource& source) {
  DISTILL_ASSIGN_OR_RETURN(state, RestoreCheckpoint(run, options, Tensors()));
  if (state.step == 0) return absl::OkStatus();
  return Agree(comm(), CatchTorch([&] {
                 optimizer->set_steps(state.updates);
                 optimizer->RenewWorkingCopies();
                 return source.Restore({.epoch = state.epoch, .row = state.row, .seed = state.data_seed});
               }));
}

absl::Status Trainer::Impl::OpenLog() {
  absl::Status opened;
  if (run.rank() == 0) {
    auto made = TrainingLog::Open(options.output_dir, state.step, total_steps);
    opened = made.status();
    if (made.ok()) log = *std::move(made);
  }
  return Agree(comm(), opened);
}

absl::Status Trainer::Impl::Loop(StepSource& source, Trainer& trainer) {
  DISTILL_ASSIGN_OR_RETURN(const Schedule schedule, Schedule::Create(options.lr_scheduler_type, options.learning_rate,
                                                                     options.warmup_ratio, total_steps));
  TrainStep step(comm(), *buckets, *optimizer, options.max_grad_norm);
  int64_t tokens_since_log = 0;
  StopWatch since_log;
  absl::Status mine;  // what failed on this rank alone; the next agreement makes it everybody's
  module->train();
  while (state.step < total_steps) {
    const double learning_rate = schedule.LearningRate(state.step + 1);
    DISTILL_ASSIGN_OR_RETURN(const StepOutcome outcome, step.Run(source, learning_rate, mine));
    mine = outcome.update;
    DISTILL_RETURN_IF_ERROR(NoteStep(outcome));
    tokens_since_log += outcome.tokens;
    const bool is_last = state.step == total_steps;
    if (IsDue(options.logging_steps) || (options.logging_steps > 0 && is_last)) {
      mine.Update(Log(outcome, learning_rate, static_cast<double>(tokens_since_log) / since_log.Seconds()));
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
  if (outcome.non_finite.empty()) {
    state.loss_sum += outcome.means[0].second;
    state.skipped_in_a_row = 0;
    return absl::OkStatus();
  }
  ++state.skipped_in_a_row;
  const std::string what = absl::StrCat("step ", state.step, ": ", outcome.non_finite, " is not finite");
  if (state.skipped_in_a_row >= kMaxSkippedInARow) {
    return absl::InternalError(absl::StrCat(what, ", for the ", kMaxSkippedInARow,
                                            "th step in a row: lower learning_rate or look at the data"));
  }
  if (run.rank() == 0) LogWarning(absl::StrCat(what, "; this update is left out"));
  return absl::OkStatus();
}

absl::Status Trainer::Impl::Log(const StepOutcome& outcome, double learning_rate, double tokens_per_second) {
  if (log == nullptr) return absl::OkStatus();
  NamedValues values = outcome.means;
  values.emplace_back("grad_norm", outcome.grad_norm);
  values.emplace_back("learning_rate", learning_rate);
  values.emplace_back("epoch", epochs->EpochsOf(state.step));
  values.emplace_back("tokens_per_second", tokens_per_second);
  return log->Train(state.step, values);
}

absl::Status Trainer::Impl::EvaluateNow(Trainer& trainer) {
  if (!evaluation.has_value() || !evaluation_loss) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const auto means, trainer.Evaluate(*evaluation, evaluation_loss));
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
                                  return absl::OkStatus();
                                })));
  DISTILL_RETURN_IF_ERROR(BroadcastBuffers(comm(), *module));
  const auto write = [this](const std::string& folder) { return WriteModel(folder); };
  return SaveCheckpoint(run, options, Tensors(), write, state);
}

absl::Status Trainer::Impl::WriteModel(const std::string& folder) {
  return model_writer ? model_writer(folder) : WriteWeights(*module, folder);
}

absl::StatusOr<TrainResult> Trainer::Impl::Finish(Trainer& trainer, double seconds) {
  DISTILL_RETURN_IF_ERROR(CatchTorch([&] { return EvaluateNow(trainer); }));
  absl::Status written;
  if (run.rank() == 0 && !options.output_dir.empty()) {
    written = CatchTorch([&] {
      return PublishFiles(options.output_dir, [this](const std::string& folder) { return WriteModel(folder); });
    });
  }
  DISTILL_RETURN_IF_ERROR(Agree(comm(), written));

  TrainResult result;
  result.steps = state.step;
  result.train_loss = state.loss_sum / static_cast<double>(std::max<int64_t>(1, state.step));
  result.train_runtime = seconds;
  NamedValues values = {{"train_runtime", seconds},
                        {"train_samples_per_second", static_cast<double>(state.samples - samples_before) / seconds},
                        {"train_tokens_per_second", static_cast<double>(state.tokens - tokens_before) / seconds},
                        {"train_loss", result.train_loss}};
  values.insert(values.end(), last_evaluation.begin(), last_evaluation.end());
  values.emplace_back("epoch", epochs->EpochsOf(state.step));
  if (log != nullptr) log->Final(values);
  result.metrics.insert(values.begin(), values.end());
  return result;
}

absl::StatusOr<std::map<std::string, double>> Trainer::Evaluate(DataSharder& sharder, const TokenLoss& loss) {
  return MeansOverData(impl_->comm(), *impl_->module, sharder, loss);
}

}  // namespace distill
