// When a run evaluates and saves, which evaluation is the best, and what becomes of it: options of transformers'
// TrainingArguments, and of its EarlyStoppingCallback.
#pragma once

#include <cstdint>
#include <string>

#include "libdistill/core/describe.h"

namespace distill {

// When held-out data is evaluated. kAuto: every eval_steps, or at the end alone where that is 0. All but kNo evaluate
// at the end, too.
enum class EvalStrategy { kAuto, kNo, kSteps, kEpoch };
constexpr EnumNames<EvalStrategy, 4> NamesOf(EvalStrategy) {
  return {{{"auto", EvalStrategy::kAuto},
           {"no", EvalStrategy::kNo},
           {"steps", EvalStrategy::kSteps},
           {"epoch", EvalStrategy::kEpoch}}};
}

// When checkpoints are saved: all but kNo save the last step, too.
enum class SaveStrategy { kNo, kSteps, kEpoch };
constexpr EnumNames<SaveStrategy, 3> NamesOf(SaveStrategy) {
  return {{{"no", SaveStrategy::kNo}, {"steps", SaveStrategy::kSteps}, {"epoch", SaveStrategy::kEpoch}}};
}

// What a checkpoint that cannot be written does to the run.
enum class SaveFailure { kWarn, kStop };
constexpr EnumNames<SaveFailure, 2> NamesOf(SaveFailure) {
  return {{{"warn", SaveFailure::kWarn}, {"stop", SaveFailure::kStop}}};
}

// Where the first, third or fourth is set the best evaluation is tracked, and the checkpoint of the best one that was
// saved is never pruned.
struct BestModelOptions {
  std::string metric_for_best_model = "";  // a metric of the evaluator, with or without "eval_"; empty: loss
  Switch greater_is_better = Switch::kAuto;
  // The model that a Fit leaves and publishes is that of the best evaluation. A step whose evaluation is the best so
  // far is checkpointed, whatever save_steps says.
  bool load_best_model_at_end = false;
  // Training ends after that many evaluations in a row that were not better than the best by more than the threshold;
  // 0: never.
  int64_t early_stopping_patience = 0;
  double early_stopping_threshold = 0;
};

inline bool TracksBest(const BestModelOptions& o) {
  return !o.metric_for_best_model.empty() || o.load_best_model_at_end || o.early_stopping_patience > 0;
}

template <class V>
void Describe(V& v, BestModelOptions& o) {
  v.Field("metric_for_best_model", o.metric_for_best_model,
          "metric of the held-out data whose best checkpoint is never pruned; empty: loss, where the next ones ask for "
          "one");
  v.Field(
      "greater_is_better", o.greater_is_better,
      "of that metric; auto: false for the task's losses, ce, kl, jsd, total_variation, mse, perplexity and what ends "
      "in _kl, _loss, _error or _error_rate");
  v.Field("load_best_model_at_end", o.load_best_model_at_end,
          "the trained model is that of the best evaluation, not of the last step");
  v.Field("early_stopping_patience", o.early_stopping_patience, AtLeast(0),
          "training ends after that many evaluations in a row without a better one; 0: never");
  v.Field("early_stopping_threshold", o.early_stopping_threshold, AtLeast(0), "by how much better it must be");
}

}  // namespace distill
