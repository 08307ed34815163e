// What a picture of runs shows: which curves are in which diagram, with their axes. How it is drawn is draw_figure.h's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/metrics/axis.h"
#include "libdistill/metrics/curve.h"

namespace distill {

enum class LineKind { kTraining, kEvaluation, kMean };

// A curve in a diagram. Between two finite points with one that is not finite between them is a gap.
struct FigureLine {
  LineKind kind = LineKind::kTraining;
  size_t run = 0;         // which of the figure's
  bool is_faint = false;  // behind its running mean
  std::vector<CurvePoint> points = {};
};

struct FigurePanel {
  std::string title;
  Axis across, up;
  std::vector<FigureLine> lines = {};
};

struct Figure {
  std::string title, subtitle;
  std::vector<std::string> runs = {};  // names, each of its own colour
  std::string mean_name;               // of the lines that are means
  std::vector<FigurePanel> panels = {};
  std::string note;  // below all of them
};

struct FigureOptions {
  std::string title;
  // Panels in this order, by the names in the records with or without "eval_"; empty: all but the time-keeping ones.
  std::vector<std::string> metrics = {};
  int64_t smooth = 1;  // above 1: training's curves are running means of so many records, over the records themselves
};

// One panel a metric, with its training and its evaluations: the loss first, then what is evaluated, the loss's terms,
// the gradients' norm and the learning rate, and at the end parts of what is evaluated ("error_rate.monday", beside
// "error_rate"). At most 12; the note names the others. InvalidArgument: no run has one of options.metrics, and those
// that there are are named.
[[nodiscard]] absl::StatusOr<Figure> FigureOf(const std::vector<RunCurves>& runs, const FigureOptions& options);

}  // namespace distill
