#include "libdistill/metrics/best_evaluation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

std::string MetricOf(const BestModelOptions& options) {
  if (options.metric_for_best_model.empty()) return "loss";
  return std::string(absl::StripPrefix(options.metric_for_best_model, "eval_"));
}

bool IsBetterWhenGreater(const BestModelOptions& options, const std::string& metric,
                         const std::vector<std::string>& losses) {
  if (options.greater_is_better != Switch::kAuto) return options.greater_is_better == Switch::kTrue;
  if (std::find(losses.begin(), losses.end(), metric) != losses.end()) return false;
  for (const char* name : {"loss", "ce", "kl", "jsd", "total_variation", "mse", "perplexity"}) {
    if (metric == name) return false;
  }
  for (const char* end : {"_kl", "_loss", "_error", "_error_rate"}) {
    if (absl::EndsWith(metric, end)) return false;
  }
  return true;
}

}  // namespace

BestEvaluation::BestEvaluation(const BestModelOptions& options, const std::vector<std::string>& losses)
    : options_(options),
      metric_(MetricOf(options)),
      greater_is_better_(IsBetterWhenGreater(options, metric_, losses)) {}

std::string BestEvaluation::Compared() const {
  return absl::StrCat(metric_, greater_is_better_ ? ", greater is better" : ", smaller is better");
}

absl::Status BestEvaluation::Check(const std::map<std::string, double>& metrics) const {
  if (!TracksBest(options_) || metrics.count(metric_) > 0) return absl::OkStatus();
  const auto name = [](std::string* out, const auto& metric) { absl::StrAppend(out, metric.first); };
  return absl::InvalidArgumentError(absl::StrCat("metric_for_best_model: the evaluation gives no '", metric_,
                                                 "'; it gives ", absl::StrJoin(metrics, ", ", name)));
}

bool BestEvaluation::IsBetter(double value, double margin) const {
  if (!std::isfinite(value)) return false;
  if (step_ == 0) return true;
  const double gain = greater_is_better_ ? value - metrics_.at(metric_) : metrics_.at(metric_) - value;
  return gain > margin;
}

absl::Status BestEvaluation::Note(int64_t step, const std::map<std::string, double>& metrics) {
  if (!TracksBest(options_)) return absl::OkStatus();
  DISTILL_RETURN_IF_ERROR(Check(metrics));
  const double value = metrics.at(metric_);
  since_best_ = IsBetter(value, options_.early_stopping_threshold) ? 0 : since_best_ + 1;
  if (!IsBetter(value, 0)) return absl::OkStatus();
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
  const bool tracks = TracksBest(options_);
  state.best_metric = tracks ? Compared() : "";
  state.best_step = step_;
  state.best_evaluation.assign(metrics_.begin(), metrics_.end());
  state.evaluations_since_best = since_best_;
  if (step_ == 0) state.best_checkpoint.clear();
}

void BestEvaluation::Restore(const TrainerState& state) {
  if (!TracksBest(options_) || state.best_metric != Compared()) return;
  step_ = state.best_step;
  metrics_ = {state.best_evaluation.begin(), state.best_evaluation.end()};
  since_best_ = state.evaluations_since_best;
}

}  // namespace distill
