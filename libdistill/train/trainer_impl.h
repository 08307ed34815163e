// What a Trainer holds; trainer_start.cc has what it does before the first step, trainer_parameters.cc what is
// trained, trainer.cc the steps, and trainer_records.cc what comes between and after them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "libdistill/data/epochs.h"
#include "libdistill/gradients/adamw.h"
#include "libdistill/gradients/gradient_reducer.h"
#include "libdistill/gradients/loss_scale.h"
#include "libdistill/metrics/best_evaluation.h"
#include "libdistill/metrics/interruption.h"
#include "libdistill/metrics/record_sums.h"
#include "libdistill/metrics/reports.h"
#include "libdistill/shard/flat_parameters.h"
#include "libdistill/shard/sharded_models.h"
#include "libdistill/train/fingerprint.h"
#include "libdistill/train/train_step.h"
#include "libdistill/train/trainer.h"
#include "libdistill/train/trainer_options.h"
#include "libdistill/train/trainer_state.h"

namespace distill {

struct Trainer::Impl {
  Impl(RunContext& run, std::shared_ptr<torch::nn::Module> module, const TrainerOptions& options)
      : run(run), module(std::move(module)), options(options) {}

  RunContext& run;
  std::shared_ptr<torch::nn::Module> module;
  TrainerOptions options;
  std::vector<std::shared_ptr<Observer>> observers;
  bool writes_whole = false;  // rank 0's writer may look at any weight

  // Made by Fit.
  Task* task = nullptr;
  std::vector<TermWeight> terms;        // its loss terms
  std::vector<std::string> term_names;  // of all that passes report on any rank
  RecordSums record;
  TrainingClock clock;  // since the last record
  int64_t tokens_since_record = 0;
  int64_t logged_step = 0;    // of the last record
  NamedValues beside_losses;  // what a record has besides, of the last step
  TrainingControl control;    // what this rank's observers ask for
  std::unique_ptr<AdamW> optimizer;
  std::vector<TrainedParameter> parameters;
  std::unique_ptr<FlatParameters> flat;  // where state is sharded
  GatedModel* gated = nullptr;           // where parameters are
  std::vector<int64_t> block_of;         // of each parameter then
  std::shared_ptr<GradientReducer> reducer;
  std::vector<std::shared_ptr<Observer>> reports;  // on rank 0
  std::string newest_checkpoint;                   // of this run, on rank 0
  std::string how_to_resume;
  std::optional<BestEvaluation> best;
  std::string best_checkpoint;                 // on rank 0
  std::unique_ptr<Interruption> interruption;  // rank 0 only, from the first step to the end of Fit
  std::optional<EpochCounter> epochs;
  std::optional<LossScale> loss_scale;  // with fp16
  TrainerState state;
  int64_t total_steps = 0;
  int64_t samples_before = 0, tokens_before = 0;  // of the run that this one resumes
  TrainingClock runtime;                          // of the loop, without the evaluation after its last step
  EvaluationRecord last_evaluation;

  Communicator& comm() { return run.communicator(); }
  // One rank has nobody to share with.
  int zero_stage() { return comm().world_size() == 1 ? 0 : static_cast<int>(options.zero_stage); }
  TensorState Tensors() const;

  absl::StatusOr<TrainResult> Fit();
  void SetErrorContext(const std::function<std::string()>& context);
  // trainer_start.cc
  absl::Status Prepare();
  absl::Status AgreeOnTask();
  absl::Status CountSteps(Fields& fields);
  absl::Status Resume();
  absl::Status UseRestoredTensors();
  absl::Status OpenLog();
  void WillSayWhereItEnds();
  // trainer_parameters.cc
  absl::Status FindParameters();
  absl::Status FindBlocks();
  absl::Status MakeOptimizer();
  absl::Status MakeShardedOptimizer();
  absl::Status LoadUntrained();
  absl::Status MakeReducer();
  ShardedModels Sharded();
  absl::Status Unshard();  // makes a sharded module whole again
  // trainer.cc
  absl::Status Loop();
  absl::Status NoteStep(const StepOutcome& outcome);
  absl::Status HalveLossScale(const std::string& what);
  absl::StatusOr<MetricValues> Evaluate(Evaluator& evaluator);
  // trainer_records.cc
  bool IsDue(int64_t every) const;
  bool EvaluationIsDue(bool is_last);
  bool SaveIsDue(bool is_last);
  bool EvaluatesFirst() const { return options.eval_on_start && state.step == 0 && task->evaluator() != nullptr; }
  // Observers' errors, and that of Log and TellStep, are this rank's alone.
  absl::Status Tell(absl::FunctionRef<absl::Status(Observer&)> tell);
  absl::Status TellStep(const StepOutcome& outcome, double learning_rate, double scale, bool is_last);
  absl::Status Log();
  // What is due after this step. Sets `is_last` where patience with evaluations is used up.
  absl::Status EvaluateAndSave(bool& is_last);
  absl::Status EvaluateNow();
  absl::Status Save();
  absl::Status LoadBest();
  absl::Status WriteModel(const std::string& folder);
  absl::StatusOr<double> PeakMemoryOfRanks();
  absl::Status WithModuleToSave(absl::FunctionRef<absl::Status(ShardedBlocks* in_order)> body);
  absl::StatusOr<TrainResult> Finish();
};

}  // namespace distill
