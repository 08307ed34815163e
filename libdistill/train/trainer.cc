#include "libdistill/train/trainer.h"

#include <chrono>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/metrics/training_log.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/tensor/convert.h"
#include "libdistill/train/schedule.h"
#include "libdistill/train/tensor_collectives.h"
#include "libdistill/train/token_steps.h"
#include "libdistill/train/train_step.h"
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

absl::Status CheckOptions(const TrainerOptions& options) {
  const auto require = [](bool holds, const char* name, auto value, const char* limit) -> absl::Status {
    if (holds) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", value, " is not ", limit));
  };
  DISTILL_RETURN_IF_ERROR(require(options.max_steps > 0 || options.num_train_epochs > 0, "num_train_epochs",
                                  options.num_train_epochs, "above 0"));
  DISTILL_RETURN_IF_ERROR(require(options.learning_rate >= 0, "learning_rate", options.learning_rate, "0 or more"));
  DISTILL_RETURN_IF_ERROR(require(options.weight_decay >= 0, "weight_decay", options.weight_decay, "0 or more"));
  DISTILL_RETURN_IF_ERROR(require(options.max_grad_norm >= 0, "max_grad_norm", options.max_grad_norm, "0 or more"));
  DISTILL_RETURN_IF_ERROR(require(options.warmup_ratio >= 0 && options.warmup_ratio <= 1, "warmup_ratio",
                                  options.warmup_ratio, "within 0 and 1"));
  DISTILL_RETURN_IF_ERROR(require(options.bucket_bytes > 0, "bucket_bytes", options.bucket_bytes, "above 0"));
  return Schedule::Create(options.lr_scheduler_type, 0, 0, 1).status();
}

// What must be the same on every rank before anything is trained.
std::vector<std::pair<std::string, std::string>> Fingerprint(const torch::nn::Module& module,
                                                             const TrainerOptions& options) {
  std::vector<std::pair<std::string, std::string>> fields = options.resolved_config;
  for (const auto& item : module.named_parameters()) {
    fields.emplace_back(
        absl::StrCat("parameter ", item.key()),
        absl::StrCat(ShapeToString(item.value().sizes()), " ", c10::toString(item.value().scalar_type())));
  }
  fields.emplace_back("learning_rate of the trainer", absl::StrCat(options.learning_rate));
  fields.emplace_back("steps of the trainer",
                      absl::StrCat(options.max_steps, " or ", options.num_train_epochs, " epochs"));
  return fields;
}

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
  TrainerState state;
  int64_t total_steps = 0;
  int64_t steps_per_epoch = 0;
  int64_t samples_before = 0, tokens_before = 0;  // of the run that this one resumes
  std::vector<std::pair<std::string, double>> last_evaluation;

  Communicator& comm() { return run.communicator(); }
  double Epoch() const { return static_cast<double>(state.step) / static_cast<double>(steps_per_epoch); }

  absl::Status Prepare(StepSource& source);
  absl::Status OpenLog();
  absl::Status Loop(StepSource& source, Trainer& trainer);
  absl::Status NoteUpdate(const StepOutcome& outcome);
  absl::Status Log(const StepOutcome& outcome, double learning_rate, double tokens_per_second);
  absl::Status EvaluateNow(Trainer& trainer);
  absl::Status WriteModel(const std::string& folder);
  absl::StatusOr<TrainResult> Finish(Trainer& trainer, double seconds);
};

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::~Trainer() = default;

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(RunContext& run, std::shared_ptr<torch::nn::Module> module,
                                                         const TrainerOptions& options) {
  DISTILL_RETURN_IF_ERROR(Agree(run.communicator(), CheckOptions(options)));
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), Fingerprint(*module, options)));
  const torch::NoGradGuard no_grad;
  DISTILL_RETURN_IF_ERROR(CatchTorch([&]() -> absl::Status {
    module->to(run.device());
    for (torch::Tensor& parameter : module->parameters()) {
      DISTILL_RETURN_IF_ERROR(BroadcastFromRank0(run.communicator(), parameter.detach()));
    }
    return absl::OkStatus();
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

absl::StatusOr<TrainResult> Trainer::Fit(StepSource& source) {
  Impl& impl = *impl_;
  DISTILL_RETURN_IF_ERROR(impl.Prepare(source));
  impl.comm().SetErrorContext([&impl] { return absl::StrCat("step ", impl.state.step + 1); });
  const StopWatch watch;
  const absl::Status trained = CatchTorch([&] { return impl.Loop(source, *this); });
  absl::StatusOr<TrainResult> result = trained.ok() ? impl.Finish(*this, watch.Seconds()) : trained;
  impl.comm().SetErrorContext(nullptr);
  return result;
}

absl::Status Trainer::Impl::Prepare(StepSource& source) {
  absl::StatusOr<std::vector<TrainedParameter>> parameters = CollectParameters(*module, active_rows);
  DISTILL_RETURN_IF_ERROR(Agree(comm(), parameters.status()));
  // The optimizer first: it keeps the float32 values as masters when the module becomes bfloat16.
  optimizer = std::make_unique<AdamW>(*parameters, AdamWOptions{.beta1 = options.adam_beta1,
                                                                .beta2 = options.adam_beta2,
                                                                .epsilon = options.adam_epsilon,
                                                                .weight_decay = options.weight_decay});
  if (options.bf16) module->to(torch::kBFloat16);
  optimizer->RenewWorkingCopies();
  buckets = std::make_unique<GradientBuckets>(*parameters, options.bucket_bytes);

  steps_per_epoch = std::max<int64_t>(1, source.steps_per_epoch());
  total_steps = options.max_steps > 0
                    ? options.max_steps
                    : static_cast<int64_t>(std::ceil(options.num_train_epochs * static_cast<double>(steps_per_epoch)));
  state = {};
  torch::manual_seed(options.seed + static_cast<uint64_t>(run.rank()));  // dropout of ranks must not be alike
  if (!options.resume_from_checkpoint.empty()) {
    DISTILL_ASSIGN_OR_RETURN(state, RestoreCheckpoint(run, options, *optimizer));
    if (state.step > 0) {
      const absl::Status restored = source.Restore({.epoch = state.epoch, .row = state.row, .seed = state.data_seed});
      DISTILL_RETURN_IF_ERROR(Agree(comm(), restored));
    }
  }
  samples_before = state.samples;
  tokens_before = state.tokens;
  return OpenLog();
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
  module->train();
  while (state.step < total_steps) {
    const double learning_rate = schedule.LearningRate(state.step + 1);
    DISTILL_ASSIGN_OR_RETURN(const StepOutcome outcome, step.Run(source, learning_rate));
    ++state.step;
    tokens_since_log += outcome.tokens;
    state.tokens += outcome.tokens;
    state.samples += outcome.samples;
    if (outcome.non_finite.empty()) state.loss_sum += outcome.means[0].second;
    DISTILL_RETURN_IF_ERROR(NoteUpdate(outcome));
    const bool is_last = state.step == total_steps;
    if (options.logging_steps > 0 && (state.step % options.logging_steps == 0 || is_last)) {
      const double tokens_per_second = static_cast<double>(tokens_since_log) / since_log.Seconds();
      DISTILL_RETURN_IF_ERROR(Log(outcome, learning_rate, tokens_per_second));
      tokens_since_log = 0;
      since_log = {};
    }
    if (options.eval_steps > 0 && state.step % options.eval_steps == 0 && !is_last) {
      DISTILL_RETURN_IF_ERROR(EvaluateNow(trainer));
    }
    if (options.save_steps > 0 && state.step % options.save_steps == 0 && !options.output_dir.empty()) {
      const ShardState position = source.state();
      state.epoch = position.epoch;
      state.row = position.row;
      state.data_seed = position.seed;
      state.updates = optimizer->steps();
      DISTILL_RETURN_IF_ERROR(SaveCheckpoint(
          run, options, *optimizer, [this](const std::string& folder) { return WriteModel(folder); }, state));
    }
  }
  return absl::OkStatus();
}

absl::Status Trainer::Impl::NoteUpdate(const StepOutcome& outcome) {
  if (outcome.non_finite.empty()) {
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
  values.emplace_back("epoch", Epoch());
  values.emplace_back("tokens_per_second", tokens_per_second);
  return log->Train(state.step, values);
}

absl::Status Trainer::Impl::EvaluateNow(Trainer& trainer) {
  if (!evaluation.has_value() || !evaluation_loss) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(const auto means, trainer.Evaluate(*evaluation, evaluation_loss));
  last_evaluation.clear();
  for (const auto& [name, value] : means) last_evaluation.emplace_back(absl::StrCat("eval_", name), value);
  if (log == nullptr) return absl::OkStatus();
  NamedValues values = last_evaluation;
  values.emplace_back("epoch", Epoch());
  return log->Evaluation(state.step, values);
}

absl::Status Trainer::Impl::WriteModel(const std::string& folder) {
  if (model_writer) return model_writer(folder);
  std::vector<torch::Tensor> on_host;
  std::map<std::string, TensorView> views;
  for (const auto& item : module->named_parameters()) {
    on_host.push_back(ToHost(item.value().detach(), item.value().scalar_type()));
    views[item.key()] = ViewOf(on_host.back());
  }
  return WriteSafetensors(absl::StrCat(folder, "/model.safetensors"), views, {{"format", "pt"}});
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
  values.emplace_back("epoch", Epoch());
  if (log != nullptr) log->Final(values);
  result.metrics.insert(values.begin(), values.end());
  return result;
}

absl::StatusOr<std::map<std::string, double>> Trainer::Evaluate(DataSharder& sharder, const TokenLoss& loss) {
  Impl& impl = *impl_;
  DISTILL_RETURN_IF_ERROR(Agree(impl.comm(), sharder.Restore({.epoch = 0, .row = 0, .seed = sharder.state().seed})));
  const bool was_training = impl.module->is_training();
  impl.module->eval();
  SumsOverRanks sums(impl.comm());
  int64_t count = 0;
  const absl::Status mine = CatchTorch([&]() -> absl::Status {
    const torch::NoGradGuard no_grad;
    for (int64_t step = 0, steps = sharder.steps_per_epoch(); step < steps; ++step) {
      for (const TokenBatch& batch : sharder.NextStep()) {
        if (batch.num_loss_tokens() == 0) continue;
        count += batch.num_loss_tokens();
        DISTILL_RETURN_IF_ERROR(sums.Add(loss(batch), batch.num_loss_tokens()));
      }
    }
    return absl::OkStatus();
  });
  impl.module->train(was_training);
  DISTILL_RETURN_IF_ERROR(impl.comm().AllReduce(&count, &count, 1, DType::kInt64, ReduceOp::kSum));
  DISTILL_ASSIGN_OR_RETURN(const auto means, sums.Finish(mine, count));
  return std::map<std::string, double>(means.begin(), means.end());
}

}  // namespace distill
