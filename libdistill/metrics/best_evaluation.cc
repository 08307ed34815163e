#include "libdistill/metrics/best_evaluation.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace distill {
namespace {

std::string MetricOf(const BestModelOptions& options) {
  if (options.metric_for_best_model.empty()) return "loss";
  return std::string(absl::StripPrefix(options.metric_for_best_model, "eval_"));
}

bool IsBetterWhenGreater(const BestModelOptions& options, const std::string& metric) {
  if (options.greater_is_better != Switch::kAuto) return options.greater_is_better == Switch::kTrue;
  for (const char* name : {"loss", "ce", "kl", "reverse_kl", "jsd", "perplexity"}) {
    if (metric == name) return false;
  }
  for (const char* end : {"_loss", "_error", "_error_rate"}) {
    if (absl::EndsWith(metric, end)) return false;
  }
  return true;
}

}  // namespace

BestEvaluation::BestEvaluation(const BestModelOptions& options)
    : options_(options), metric_(MetricOf(options)), greater_is_better_(IsBetterWhenGreater(options, metric_)) {}

bool BestEvaluation::IsBetter(double value, double margin) const {
  if (!std::isfinite(value)) return false;
  if (step_ == 0) return true;
  const double gain = greater_is_better_ ? value - metrics_.at(metric_) : metrics_.at(metric_) - value;
  return gain > margin;
}

absl::Status BestEvaluation::Note(int64_t step, const std::map<std::string, double>& metrics) {
  if (!TracksBest(options_)) return absl::OkStatus();
  const auto found = metrics.find(metric_);
  if (found == metrics.end()) {
    const auto name = [](std::string* out, const auto& metric) { absl::StrAppend(out, metric.first); };
    return absl::InvalidArgumentError(absl::StrCat("metric_for_best_model: the evaluation gives no '", metric_,
                                                   "'; it gives ", absl::StrJoin(metrics, ", ", name)));
  }
  since_best_ = IsBetter(found->second, options_.early_stopping_threshold) ? 0 : since_best_ + 1;
  if (!IsBetter(found->second, 0)) return absl::OkStatus();
  step_ = step;
  metrics_ = metrics;
  return absl::OkStatus();
}

bool BestEvaluation::is_exhausted() const {
  return options_.early_stopping_patience > 0 && since_best_ >= options_.early_stopping_patience;
}

std::string BestEvaluation::Text() const {
  if (step_ == 0) return absl::StrCat(metric_, " was never finite");
  return absl::StrCat(metric_, " is best at step ", step_, " with ", metrics_.at(metric_));
}

void BestEvaluation::SaveTo(TrainerState& state) const {
  if (!TracksBest(options_)) return;
  state.best_step = step_;
  state.best_metric = metric_;
  state.best_evaluation.assign(metrics_.begin(), metrics_.end());
  state.evaluations_since_best = since_best_;
}

void BestEvaluation::Restore(const TrainerState& state) {
  if (!TracksBest(options_) || state.best_metric != metric_) return;
  step_ = state.best_step;
  metrics_ = {state.best_evaluation.begin(), state.best_evaluation.end()};
  since_best_ = state.evaluations_since_best;
}

}  // namespace distill
