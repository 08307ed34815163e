// One Trainer::Fit, from its first agreement to the published model.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libdistill/core/interruption.h"
#include "libdistill/metrics/metric_lines.h"
#include "libdistill/train/agreed_task.h"
#include "libdistill/train/run_checkpoints.h"
#include "libdistill/train/run_reports.h"
#include "libdistill/train/skipped_updates.h"
#include "libdistill/train/trainer.h"

namespace distill {

class Fitting {
 public:
  // `options.overwrite_output_dir` becomes false when it has had its effect: a later Fit's run is the same one.
  Fitting(RunContext& run, std::shared_ptr<torch::nn::Module> module, TrainerOptions& options,
          const std::vector<std::shared_ptr<Observer>>& observers, Task& task);

  // Once. Trainer::Fit has what it returns.
  [[nodiscard]] absl::StatusOr<TrainResult> Run();
  // Of the module as it is meanwhile, sharded or whole.
  [[nodiscard]] absl::StatusOr<MetricValues> Evaluate(Evaluator& evaluator);

 private:
  Communicator& comm() { return run_.communicator(); }
  ShardedModels Sharded() { return {.trained = trained_.blocks(), .frozen = run_.frozen()}; }
  void SetErrorContext(const std::function<std::string()>& context) {
    comm().SetErrorContext(context);
    Sharded().SetErrorContext(context);
  }

  absl::Status Prepare();
  absl::Status Resume();
  absl::Status OpenReports();
  absl::Status Loop();
  absl::Status NoteStep(const StepOutcome& outcome);
  NamedValues BesideLosses(const StepOutcome& outcome, double learning_rate, double scale);
  bool EvaluationIsDue(bool is_last);
  bool SaveIsDue(bool is_last);
  // A notice to end came: what there is is saved. Cancelled, unless that fails.
  absl::Status Leave();
  // Of the next step (PassScale::progress).
  double Progress() const;
  StopRequest Request() const;
  // Whether a checkpoint that failed with this error is no reason to end the run: the same on every rank, which all
  // ask.
  bool MayGoOnAfter(const absl::Status& failed, bool is_last);
  // What is due after this step. Sets `is_last` where patience with evaluations is used up.
  absl::Status EvaluateAndSave(bool& is_last);
  // Leave's error where a notice to end came first.
  absl::Status EvaluateNow();
  // A checkpoint; SaveOrWarn passes over one that the run can do without, and says so.
  absl::Status Save();
  absl::Status SaveOrWarn(bool is_last);
  // The model, and the last checkpoint where that failed before.
  absl::Status Publish();
  absl::StatusOr<TrainResult> Finish();
  // What a signal that ends the process lets rank 0 say.
  void WillSayWhereItEnds();

  RunContext& run_;
  TrainerOptions& options_;
  Task& task_;
  TrainedModule trained_;
  EpochCounter epochs_;
  AgreedTask agreed_;
  SkippedUpdates skipped_;
  const std::vector<std::shared_ptr<Observer>>& observers_;
  // These three: once the task is agreed on.
  std::optional<BestEvaluation> best_;
  std::optional<RunReports> reports_;
  std::optional<RunCheckpoints> checkpoints_;
  std::unique_ptr<Interruption> interruption_;  // from the first step to the end
  int64_t saved_step_ = -1;                     // of the last checkpoint that this Fit has committed
  bool save_is_late_ = false;                   // one was due after a step whose update was left out
  bool last_save_failed_ = false;
  std::string how_to_resume_;
  TrainerState state_;
  TrainedWork before_;     // of the run that this one resumes
  TrainingClock runtime_;  // of the loop, without the evaluation after its last step
  EvaluationRecord last_evaluation_;
};

}  // namespace distill
