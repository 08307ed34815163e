#include "libdistill/train/trainer_options.h"

namespace distill {

GroupedSchedule ScheduleOf(const TrainerOptions& options, int64_t total_steps) {
  return GroupedSchedule({.type = options.lr_scheduler_type,
                          .shape = options.lr_scheduler_kwargs,
                          .learning_rate = options.learning_rate,
                          .warmup_ratio = options.warmup_ratio,
                          .warmup_steps = options.warmup_steps},
                         options.parameter_groups, total_steps);
}

bool AsksForEvaluations(const TrainerOptions& options) {
  const bool by_strategy =
      options.eval_strategy == EvalStrategy::kSteps || options.eval_strategy == EvalStrategy::kEpoch;
  return by_strategy || options.eval_steps > 0 || options.eval_on_start || TracksBest(options.best_model);
}

absl::Status CheckEvaluations(const TrainerOptions& options) {
  const BestModelOptions& best = options.best_model;
  const EvalStrategy strategy = options.eval_strategy;
  if (strategy == EvalStrategy::kSteps && options.eval_steps == 0) {
    return absl::InvalidArgumentError("eval_strategy: steps needs eval_steps, the steps between evaluations");
  }
  const bool takes_steps = strategy == EvalStrategy::kSteps || strategy == EvalStrategy::kAuto;
  if (!takes_steps && options.eval_steps > 0) {
    return absl::InvalidArgumentError("eval_steps goes with eval_strategy: steps; leave one of them out");
  }
  if (options.eval_on_start && strategy == EvalStrategy::kNo) {
    return absl::InvalidArgumentError("eval_on_start contradicts eval_strategy: no; leave one of them out");
  }
  if (TracksBest(best) && strategy == EvalStrategy::kNo) {
    return absl::InvalidArgumentError(
        "eval_strategy: no leaves nothing for metric_for_best_model, load_best_model_at_end and "
        "early_stopping_patience to compare");
  }
  const bool evaluates_before_end = strategy == EvalStrategy::kEpoch || options.eval_steps > 0;
  if (TracksBest(best) && !evaluates_before_end) {
    return absl::InvalidArgumentError(
        "metric_for_best_model, load_best_model_at_end and early_stopping_patience need evaluations before the end: "
        "set eval_steps, or eval_strategy: epoch");
  }
  if (best.early_stopping_threshold > 0 && best.early_stopping_patience == 0) {
    return absl::InvalidArgumentError("early_stopping_threshold needs early_stopping_patience");
  }
  if (best.greater_is_better != Switch::kAuto && !TracksBest(best)) {
    return absl::InvalidArgumentError("greater_is_better needs metric_for_best_model");
  }
  if (best.load_best_model_at_end && options.output_dir.empty()) {
    return absl::InvalidArgumentError("load_best_model_at_end needs output_dir, where the best checkpoint is saved");
  }
  return absl::OkStatus();
}

}  // namespace distill
