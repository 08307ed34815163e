#include "libdistill/train/fitting.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/checkpoint/checkpoint.h"
#include "libdistill/checkpoint/final_save.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/data_sharder.h"
#include "libdistill/metrics/record_writer.h"
#include "libdistill/run/run_costs.h"
#include "libdistill/tensor/catch_torch.h"
#include "libdistill/train/evaluation.h"

namespace distill {
namespace {

// Older checkpoints have the numbers of a DataSharder.
std::string PositionOf(const TrainerState& state) {
  return state.position.value_or(DataSharder::PositionOf(state.epoch, state.row, state.data_seed));
}

bool IsDue(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

TrainedModule::Options ModuleOptionsOf(const RunContext& run, const TrainerOptions& options, const Task& task) {
  return {.device = run.device(),
          .dtype = WorkingType(options, run.device()),
          // One rank has nobody to share with.
          .zero_stage = run.world_size() == 1 ? 0 : static_cast<int>(options.zero_stage),
          .bucket_bytes = options.bucket_bytes,
          .compression = options.gradient_compression,
          .adamw = {.beta1 = options.adam_beta1,
                    .beta2 = options.adam_beta2,
                    .epsilon = options.adam_epsilon,
                    .weight_decay = options.weight_decay,
                    .groups = options.parameter_groups},
          .besides = [&task, type = run.device().type()] { return task.HeldMemory(type); }};
}

}  // namespace

Fitting::Fitting(RunContext& run, std::shared_ptr<torch::nn::Module> module, TrainerOptions& options,
                 const std::vector<std::shared_ptr<Observer>>& observers, Task& task)
    : run_(run),
      options_(options),
      task_(task),
      trained_(run.communicator(), std::move(module), ModuleOptionsOf(run, options, task)),
      epochs_([&task](int64_t epoch) { return OrThrow(task.StepsInEpoch(epoch)); }),
      skipped_(options, run.rank()),
      observers_(observers) {}

absl::StatusOr<TrainResult> Fitting::Run() {
  absl::Status status = CatchTorch([this] { return Prepare(); });
  runtime_.Resume();
  if (status.ok()) {
    SetErrorContext([this] { return absl::StrCat("step ", state_.step + 1); });
    status = CatchTorch([this] { return run_.WhileTraining([this] { return Loop(); }); });
  }
  absl::StatusOr<TrainResult> result = absl::UnknownError("not finished");
  if (status.ok()) status = CatchTorch([&] { return (result = Finish()).status(); });
  task_.Stop();
  trained_.Release();
  if (status.ok() && options_.whole_after_fit) {
    status = trained_.Unshard();
    // Where files were asked for they are on the disk by now.
    if (absl::IsResourceExhausted(status) && !options_.output_dir.empty()) {
      if (run_.rank() == 0) LogWarning(absl::StrCat("the module is left sharded: ", status.message()));
      status = absl::OkStatus();
    }
  }
  SetErrorContext(nullptr);
  if (!status.ok()) return trained_.Explained(status);  // where no pass has
  return result;
}

absl::Status Fitting::Prepare() {
  DISTILL_ASSIGN_OR_RETURN(agreed_, AgreeOnTask(run_, task_, trained_.module(), options_, epochs_, [this] {
                             return trained_.FindParameters(task_.TrainedRows(trained_.module()));
                           }));
  std::vector<std::string> losses;
  for (const TermWeight& term : agreed_.terms) losses.push_back(term.name);
  best_.emplace(options_.best_model, losses);
  reports_.emplace(run_, options_, observers_, agreed_.total_steps);
  checkpoints_.emplace(run_, options_, task_, trained_, agreed_.writes_whole);
  DISTILL_RETURN_IF_ERROR(trained_.MakeOptimizer());
  torch::manual_seed(options_.seed + static_cast<uint64_t>(run_.rank()));  // dropout of ranks must not be alike
  DISTILL_RETURN_IF_ERROR(Resume());
  DISTILL_RETURN_IF_ERROR(trained_.MakeReducer(state_.gradient_order, task_.losses_are_final()));
  DISTILL_RETURN_IF_ERROR(Agree(comm(), reports_->Tell([&](Observer& o) { return o.OnBegin(state_.step); })));
  before_ = {.samples = state_.samples, .steps = state_.step, .tokens = state_.tokens};
  DISTILL_RETURN_IF_ERROR(Agree(comm(), run_.rank() == 0 ? OpenReports() : absl::OkStatus()));
  interruption_ = std::make_unique<Interruption>();
  if (run_.rank() == 0) WillSayWhereItEnds();
  return absl::OkStatus();
}

absl::Status Fitting::Resume() {
  DISTILL_ASSIGN_OR_RETURN(state_, checkpoints_->Restore());
  if (state_.step == 0) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(Agree(comm(), CatchTorch([&] {
                                  trained_.optimizer().set_steps(state_.updates);
                                  skipped_.Restore(state_);
                                  reports_->since_record().Restore(state_);
                                  best_->Restore(state_);
                                  return task_.Restore(PositionOf(state_));
                                })));
  return trained_.UseRestoredTensors();
}

absl::Status Fitting::OpenReports() {
  DISTILL_RETURN_IF_ERROR(checkpoints_->CheckSpace(agreed_.total_steps));
  // Not in another Fit, whose run this one is.
  const bool replaces =
      std::exchange(options_.overwrite_output_dir, false) && !(state_.step > 0 && ResumesInOutputDir(options_));
  DISTILL_RETURN_IF_ERROR(reports_->Open(state_.step, replaces));
  // As late as may be: a run that fails before has removed none.
  if (replaces) DISTILL_RETURN_IF_ERROR(RemoveCheckpoints(options_.output_dir, checkpoints_->newest()));
  how_to_resume_ = HowToResume(options_, checkpoints_->newest());
  return absl::OkStatus();
}

void Fitting::WillSayWhereItEnds() {
  if (run_.rank() != 0) return;
  interruption_->WillSay(
      absl::StrCat("interrupted after step ", state_.step, " of ", agreed_.total_steps, "; ", how_to_resume_));
}

absl::Status Fitting::Loop() {
  const GroupedSchedule schedule = ScheduleOf(options_, agreed_.total_steps);
  LossScale* loss_scale = skipped_.loss_scale();  // null: without
  TrainStep step(comm(), agreed_, trained_, Sharded(), options_.max_grad_norm, loss_scale);
  absl::Status mine;  // what failed on this rank alone; the next agreement makes it everybody's
  bool is_last = best_->is_exhausted() || state_.step >= agreed_.total_steps;  // a run that had ended, resumed
  if (options_.eval_on_start && state_.step == 0 && task_.evaluator()) DISTILL_RETURN_IF_ERROR(EvaluateNow());
  if (std::exchange(state_.evaluation_is_owed, false)) DISTILL_RETURN_IF_ERROR(EvaluateAndSave(is_last));
  trained_.module().train();
  reports_->ResumeClock();
  while (!is_last) {
    // With a loss scale, steps that are left out do not count.
    const LearningRates rates = schedule.At((loss_scale != nullptr ? trained_.optimizer().steps() : state_.step) + 1);
    const double scale =
        loss_scale != nullptr ? loss_scale->scale() : 1.0;  // that the step has, whatever becomes of it
    absl::StatusOr<StepOutcome> made = step.Run(task_, rates, Progress(), mine, [this] { return Request(); });
    if (absl::IsInternal(made.status())) return Annotate(made.status(), absl::StrCat("step ", state_.step + 1));
    DISTILL_ASSIGN_OR_RETURN(const StepOutcome outcome, std::move(made));
    mine = outcome.update;
    DISTILL_RETURN_IF_ERROR(NoteStep(outcome));
    is_last = outcome.request == StopRequest::kEnd || state_.step == agreed_.total_steps;
    mine.Update(CatchTorch(
        [&] { return reports_->TellStep(state_.step, outcome, BesideLosses(outcome, rates.rate, scale), is_last); }));
    if (outcome.request == StopRequest::kLeave && !skipped_.last_was_skipped()) {
      DISTILL_RETURN_IF_ERROR(Agree(comm(), mine));
      return Leave();
    }
    if (!EvaluationIsDue(is_last) && !SaveIsDue(is_last) && !is_last) continue;
    DISTILL_RETURN_IF_ERROR(Agree(comm(), mine));
    reports_->PauseClock();
    DISTILL_RETURN_IF_ERROR(EvaluateAndSave(is_last));
    reports_->ResumeClock();
  }
  return absl::OkStatus();
}

double Fitting::Progress() const {
  const int64_t last = agreed_.total_steps - 1;
  return last > 0 ? static_cast<double>(state_.step) / static_cast<double>(last) : 1;
}

StopRequest Fitting::Request() const {
  const bool is_over = options_.max_run > absl::ZeroDuration() && run_.age() >= options_.max_run;
  if (is_over || interruption_->notice() != nullptr) return StopRequest::kLeave;
  return reports_->wants_to_stop() ? StopRequest::kEnd : StopRequest::kNone;
}

absl::Status Fitting::Leave() {
  const char* const notice = interruption_->notice();
  const bool saves = !options_.output_dir.empty() && state_.step > 0;
  const bool is_over = state_.step >= agreed_.total_steps;  // a resumed run evaluates there anyway
  state_.evaluation_is_owed = EvaluationIsDue(is_over) && last_evaluation_.step != state_.step;
  const absl::Status saved = saves && !(is_over && saved_step_ == state_.step) ? Save() : absl::OkStatus();
  if (!saved.ok()) return absl::Status(saved.code(), absl::StrCat(saved.message(), "; ", how_to_resume_));
  const std::string text =
      absl::StrCat(notice != nullptr ? notice : "max_run_seconds, or a notice to another rank,",
                   " ends the run after step ", state_.step, " of ", agreed_.total_steps, "; ", how_to_resume_);
  return saves ? absl::CancelledError(text) : absl::AbortedError(text);
}

bool Fitting::MayGoOnAfter(const absl::Status& failed, bool is_last) {
  if (!IsOfDisk(failed) || options_.save_failure == SaveFailure::kStop) return false;
  const bool needs_it = options_.best_model.load_best_model_at_end && best_->step() == state_.step;
  return is_last || (!needs_it && checkpoints_->RequireOne().ok());
}

// What is decided here follows from values that are the same on every rank.
absl::Status Fitting::NoteStep(const StepOutcome& outcome) {
  ++state_.step;
  state_.tokens += outcome.tokens;
  state_.samples += outcome.samples;
  WillSayWhereItEnds();
  if (std::isfinite(outcome.means[0].second)) state_.loss_sum += outcome.means[0].second;
  return skipped_.Note(state_.step, outcome);
}

NamedValues Fitting::BesideLosses(const StepOutcome& outcome, double learning_rate, double scale) {
  NamedValues values = {
      {"grad_norm", outcome.grad_norm}, {"learning_rate", learning_rate}, {"epoch", epochs_.EpochsOf(state_.step)}};
  if (skipped_.loss_scale() == nullptr) return values;
  values.emplace_back("loss_scale", scale);
  values.emplace_back("skipped_steps", static_cast<double>(state_.step - trained_.optimizer().steps()));
  return values;
}

bool Fitting::EvaluationIsDue(bool is_last) {
  if (task_.evaluator() == nullptr || options_.eval_strategy == EvalStrategy::kNo) return false;
  const bool by_epoch = options_.eval_strategy == EvalStrategy::kEpoch;
  return is_last || (by_epoch ? epochs_.EndsEpoch(state_.step) : IsDue(options_.eval_steps, state_.step));
}

bool Fitting::SaveIsDue(bool is_last) {
  if (options_.output_dir.empty() || options_.save_strategy == SaveStrategy::kNo) return false;
  if (save_is_late_) return true;
  if (options_.save_strategy == SaveStrategy::kEpoch) return is_last || epochs_.EndsEpoch(state_.step);
  return IsDue(options_.save_steps, state_.step) || (is_last && options_.save_steps > 0);
}

absl::Status Fitting::EvaluateAndSave(bool& is_last) {
  // The last step is saved before it is evaluated, unless its checkpoint is to tell whether it is the best.
  const bool saves_first = is_last && SaveIsDue(is_last) && !TracksBest(options_.best_model);
  if (saves_first) DISTILL_RETURN_IF_ERROR(SaveOrWarn(is_last));
  absl::Status evaluated;
  if (EvaluationIsDue(is_last)) {
    if (is_last) runtime_.Pause();
    evaluated = EvaluateNow();
    if (is_last) runtime_.Resume();
    if (evaluated.ok() && best_->is_exhausted() && !is_last) {
      is_last = true;
      if (run_.rank() == 0) LogInfo(absl::StrCat("training ends early, at step ", state_.step, ": ", best_->Text()));
      DISTILL_RETURN_IF_ERROR(Agree(comm(), reports_->TellLastStep()));
    }
  }
  const bool keeps_best = options_.best_model.load_best_model_at_end && best_->step() == state_.step;
  // After an evaluation that failed the steps before it are not lost.
  const bool rescues = !evaluated.ok() && saved_step_ != state_.step && SaveIsDue(/*is_last=*/true);
  if (saves_first || !(evaluated.ok() ? SaveIsDue(is_last) || keeps_best : rescues)) return evaluated;
  const absl::Status saved = SaveOrWarn(is_last);
  return evaluated.ok() ? saved : evaluated;
}

absl::StatusOr<MetricValues> Fitting::Evaluate(Evaluator& evaluator) {
  return EvaluateOverRanks(comm(), trained_.module(), Sharded(), run_.device(), evaluator);
}

absl::Status Fitting::EvaluateNow() {
  EvaluationCut cut{[this] { return !skipped_.last_was_skipped() && Request() == StopRequest::kLeave; }};
  absl::StatusOr<MetricValues> metrics =
      EvaluateOverRanks(comm(), trained_.module(), Sharded(), run_.device(), *task_.evaluator(), &cut);
  if (!metrics.ok()) return cut.was_made ? Leave() : metrics.status();
  last_evaluation_ = {state_.step, epochs_.EpochsOf(state_.step), *std::move(metrics)};
  DISTILL_RETURN_IF_ERROR(Agree(comm(), reports_->Tell(&Observer::OnEvaluate, last_evaluation_)));
  // The untrained model is only checked: it cannot be the best, since no checkpoint holds it.
  // Nor one that is not saved.
  return state_.step > 0 && !skipped_.last_was_skipped() ? best_->Note(state_.step, last_evaluation_.metrics)
                                                         : best_->Check(last_evaluation_.metrics);
}

absl::Status Fitting::SaveOrWarn(bool is_last) {
  save_is_late_ = skipped_.last_was_skipped();
  if (save_is_late_) {
    if (run_.rank() == 0)
      LogWarning(absl::StrCat("step ", state_.step, ": nothing is saved, since the last update was left out"));
    return absl::OkStatus();
  }
  const absl::Status saved = Save();
  last_save_failed_ = !saved.ok();
  if (saved.ok() || saved_step_ == state_.step || !MayGoOnAfter(saved, is_last))
    return saved;  // an observer's error ends the run
  if (run_.rank() == 0)
    LogWarning(absl::StrCat(saved.message(),
                            is_last ? "; the trained model is saved all the same" : "; training continues",
                            " (save_failure: warn), ", how_to_resume_));
  return absl::OkStatus();
}

absl::Status Fitting::Save() {
  state_.updates = trained_.optimizer().steps();
  skipped_.SaveTo(state_);
  state_.gradient_order = trained_.reducer().order();
  reports_->since_record().SaveTo(state_);
  best_->SaveTo(state_);
  DISTILL_RETURN_IF_ERROR(Agree(comm(), reports_->TellBeforeSave(state_.step)));
  DISTILL_ASSIGN_OR_RETURN(const std::string folder, checkpoints_->Save(state_));
  saved_step_ = state_.step;
  if (run_.rank() == 0) how_to_resume_ = HowToResume(options_, folder);
  WillSayWhereItEnds();
  return Agree(comm(), reports_->Tell(&Observer::OnSave, SaveRecord{state_.step, folder}));
}

absl::Status Fitting::Publish() {
  const std::string last = CheckpointFolder(options_.output_dir, state_.step);
  const auto gives_up = [&] { return interruption_->notice() != nullptr && checkpoints_->newest() == last; };
  absl::Status published = checkpoints_->Publish(gives_up);
  if (absl::IsCancelled(published)) {
    return absl::CancelledError(absl::StrCat(published.message(), "; a notice ends the run; ", how_to_resume_));
  }
  // Whoever extends the run resumes there. The disk has space again, but the best model may be in the last one's place.
  const bool is_last_model =
      !options_.best_model.load_best_model_at_end || best_->step() == 0 || best_->step() == state_.step;
  if (published.ok() && last_save_failed_ && is_last_model) published = SaveOrWarn(/*is_last=*/true);
  return published;
}

absl::StatusOr<TrainResult> Fitting::Finish() {
  runtime_.Pause();
  // A resumed run that had no step left.
  if (EvaluationIsDue(/*is_last=*/true) && last_evaluation_.step != state_.step) DISTILL_RETURN_IF_ERROR(EvaluateNow());
  DISTILL_RETURN_IF_ERROR(checkpoints_->LoadBest(*best_, state_));
  if (options_.best_model.load_best_model_at_end && best_->step() > 0) last_evaluation_.metrics = best_->metrics();
  if (skipped_.last_was_skipped()) DISTILL_RETURN_IF_ERROR(trained_.RequireFinite());
  DISTILL_RETURN_IF_ERROR(Publish());
  const double seconds = runtime_.Seconds();
  TrainResult result{.steps = state_.step,
                     .tokens = state_.tokens,
                     .train_loss = state_.loss_sum / static_cast<double>(std::max<int64_t>(1, state_.step)),
                     .train_runtime = seconds,
                     .metrics = {}};
  DISTILL_ASSIGN_OR_RETURN(const NamedValues costs, CostsOfRanks(run_));
  NamedValues values = SpeedsOf(
      {seconds, state_.samples - before_.samples, state_.step - before_.steps, state_.tokens - before_.tokens});
  values.emplace_back("data_wait_seconds", reports_->data_wait_seconds());
  values.emplace_back("train_loss", result.train_loss);
  values.insert(values.end(), costs.begin(), costs.end());
  DISTILL_RETURN_IF_ERROR(Agree(comm(), CatchTorch([&] {
                                  last_evaluation_.epoch = epochs_.EpochsOf(state_.step);
                                  const NamedValues evaluation = RecordOf(last_evaluation_);
                                  values.insert(values.end(), evaluation.begin(), evaluation.end());
                                  return reports_->Tell([&](Observer& observer) { return observer.OnEnd(values); });
                                })));
  result.metrics.insert(values.begin(), values.end());
  return result;
}

}  // namespace distill
