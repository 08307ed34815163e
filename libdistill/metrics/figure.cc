#include "libdistill/metrics/figure.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr size_t kMostPanels = 12;
constexpr size_t kColumns = 600;  // of pixels, about, that a panel has
constexpr int kTicksAcross = 8, kTicksUp = 6;
constexpr double kNearBegin = 0.2;   // of the steps: then they are drawn from 0 on
constexpr double kGreatest = 1e290;  // a number beyond it is no point of a curve
constexpr char kEvaluation[] = "eval_";

// They say how training goes, not what comes of it; --metrics draws them.
constexpr absl::string_view kOfTime[] = {"epoch",      "time",          "tokens_per_second", "samples_per_second",
                                         "loss_scale", "skipped_steps", "data_wait_seconds"};

bool IsOf(absl::string_view metric, absl::string_view name) {
  return name == metric || absl::StripPrefix(name, kEvaluation) == metric;
}

// The metrics of all runs, without "eval_", in the order in which records name them.
std::vector<std::string> MetricsOf(const std::vector<RunCurves>& runs) {
  std::vector<std::string> metrics;
  for (const RunCurves& run : runs) {
    for (const auto& [name, curve] : run.curves) {
      const std::string metric(absl::StripPrefix(name, kEvaluation));
      if (std::find(metrics.begin(), metrics.end(), metric) == metrics.end()) metrics.push_back(metric);
    }
  }
  return metrics;
}

bool AnyHas(const std::vector<RunCurves>& runs, const std::string& name) {
  return std::any_of(runs.begin(), runs.end(), [&](const RunCurves& run) { return run.Find(name) != nullptr; });
}

// "error_rate.monday", beside "error_rate".
bool IsPartOfAnother(const std::vector<RunCurves>& runs, const std::string& metric) {
  const std::string whole = metric.substr(0, metric.find('.'));
  return whole != metric && (AnyHas(runs, whole) || AnyHas(runs, absl::StrCat(kEvaluation, whole)));
}

int RankOf(const std::vector<RunCurves>& runs, const std::string& metric) {
  if (metric == "loss") return 0;
  if (metric == "grad_norm") return 3;
  if (metric == "learning_rate") return 4;
  if (IsPartOfAnother(runs, metric)) return 5;
  return AnyHas(runs, absl::StrCat(kEvaluation, metric)) ? 1 : 2;
}

absl::StatusOr<std::vector<std::string>> ChooseMetrics(const std::vector<RunCurves>& runs,
                                                       const std::vector<std::string>& wanted) {
  std::vector<std::string> all = MetricsOf(runs), chosen;
  for (const std::string& name : wanted) {
    const std::string metric(absl::StripPrefix(name, kEvaluation));
    if (std::find(all.begin(), all.end(), metric) == all.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("no record has '", name, "'; there are ", absl::StrJoin(all, ", ")));
    }
    chosen.push_back(metric);
  }
  if (!wanted.empty()) return chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen), [](const std::string& metric) {
    return std::find(std::begin(kOfTime), std::end(kOfTime), metric) == std::end(kOfTime);
  });
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](const auto& a, const auto& b) { return RankOf(runs, a) < RankOf(runs, b); });
  return chosen;
}

void AddLines(const Curve& curve, LineKind kind, size_t run, int64_t smooth, FigurePanel& panel) {
  // A schedule has no noise.
  const bool has_mean = smooth > 1 && kind == LineKind::kTraining && panel.title != "learning_rate";
  panel.lines.push_back({kind, run, has_mean, Thinned(curve.points(), kColumns)});
  if (!has_mean) return;
  panel.lines.push_back({LineKind::kMean, run, false, Thinned(RunningMean(curve.points(), smooth), kColumns)});
}

FigurePanel PanelOf(const std::vector<RunCurves>& runs, const std::string& metric, int64_t smooth, const Axis& across) {
  FigurePanel panel{.title = metric, .across = across, .up = {}};
  for (size_t run = 0; run < runs.size(); ++run) {
    const Curve* const trained = runs[run].Find(metric);
    const Curve* const evaluated = runs[run].Find(absl::StrCat(kEvaluation, metric));
    if (trained != nullptr) AddLines(*trained, LineKind::kTraining, run, smooth, panel);
    if (evaluated != nullptr) AddLines(*evaluated, LineKind::kEvaluation, run, smooth, panel);
  }
  std::vector<double> values;
  for (FigureLine& line : panel.lines) {
    for (CurvePoint& point : line.points) {
      if (std::abs(point.value) < kGreatest) {
        values.push_back(point.value);
      } else {
        point.value = std::numeric_limits<double>::quiet_NaN();
      }
    }
  }
  panel.up = AxisOf(values, kTicksUp);
  if (panel.up.is_log) absl::StrAppend(&panel.title, " (logarithmic)");
  if (values.empty()) absl::StrAppend(&panel.title, ": no finite value");
  return panel;
}

// The steps of all panels: one axis, so that they can be compared.
Axis StepsOf(const std::vector<RunCurves>& runs, const std::vector<std::string>& metrics) {
  double first = std::numeric_limits<double>::infinity(), last = -first;
  for (const RunCurves& run : runs) {
    for (const auto& [name, curve] : run.curves) {
      const absl::string_view own = name;
      if (std::none_of(metrics.begin(), metrics.end(), [&](const auto& metric) { return IsOf(metric, own); })) continue;
      first = std::min(first, curve.points().front().step);
      last = std::max(last, curve.points().back().step);
    }
  }
  if (!(first <= last)) first = last = 0;
  if (first > 0 && first < kNearBegin * last) first = 0;
  const double room = first < last ? 0 : 1;
  return LinearAxis(first - room, last + room, kTicksAcross, /*least_step=*/1);
}

double LastStep(const std::vector<RunCurves>& runs) {
  double last = 0;
  for (const RunCurves& run : runs) {
    for (const auto& [name, curve] : run.curves) last = std::max(last, curve.points().back().step);
  }
  return last;
}

}  // namespace

absl::StatusOr<Figure> FigureOf(const std::vector<RunCurves>& runs, const FigureOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> metrics, ChooseMetrics(runs, options.metrics));
  Figure figure{.title = options.title,
                .subtitle = absl::StrFormat("step %.0f", LastStep(runs)),
                .mean_name = absl::StrCat("training, mean of ", options.smooth, " records"),
                .note = ""};
  for (const RunCurves& run : runs) figure.runs.push_back(run.name);
  if (metrics.size() > kMostPanels) {
    figure.note = absl::StrCat("also recorded, and not drawn: ",
                               absl::StrJoin(metrics.begin() + kMostPanels, metrics.end(), ", "));
    metrics.resize(kMostPanels);
  }
  const Axis across = StepsOf(runs, metrics);
  for (const std::string& metric : metrics) figure.panels.push_back(PanelOf(runs, metric, options.smooth, across));
  return figure;
}

}  // namespace distill
