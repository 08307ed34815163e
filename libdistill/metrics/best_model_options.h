// Which evaluation is the best, and what a trainer does about it: options of transformers' TrainingArguments, and of
// its EarlyStoppingCallback.
#pragma once

#include <cstdint>
#include <string>

#include "libdistill/core/describe.h"

namespace distill {

// Where any of these is set the best evaluation is tracked, and a checkpoint of its step is never pruned.
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
      "of that metric; auto: false for loss, ce, kl, jsd, perplexity and what ends in _loss, _error or _error_rate");
  v.Field("load_best_model_at_end", o.load_best_model_at_end,
          "the trained model is that of the best evaluation, not of the last step");
  v.Field("early_stopping_patience", o.early_stopping_patience, AtLeast(0),
          "training ends after that many evaluations in a row without a better one; 0: never");
  v.Field("early_stopping_threshold", o.early_stopping_threshold, AtLeast(0), "by how much better it must be");
}

}  // namespace distill
