// The values of a run's records by step, as a picture shows them.
//
//   DISTILL_ASSIGN_OR_RETURN(RunCurves run, ReadRun("runs/mine"));
//   const Curve* loss = run.Find("eval_loss");
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/metrics/observer.h"

namespace distill {

struct CurvePoint {
  double step = 0;
  double value = 0;  // not finite: the record had no number there
};

// At most three points of each of `bins` equal ranges of steps: the least, the greatest, and one that is not finite.
// Nothing is averaged, so a spike stays as high as it is. `points` in the order of steps.
std::vector<CurvePoint> Thinned(const std::vector<CurvePoint>& points, size_t bins);

// The mean of each finite point and the `count` - 1 finite ones before it; others stay as they are.
std::vector<CurvePoint> RunningMean(const std::vector<CurvePoint>& points, int64_t count);

// Of one value. Its memory is bounded: beyond `most_points` it is thinned.
class Curve {
 public:
  static constexpr size_t kMostPoints = 16384;
  explicit Curve(size_t most_points = kMostPoints) : most_points_(most_points) {}
  // Steps do not fall.
  void Add(double step, double value);
  const std::vector<CurvePoint>& points() const { return points_; }

 private:
  size_t most_points_;
  std::vector<CurvePoint> points_;
};

struct RunCurves {
  std::string name;
  size_t most_points = Curve::kMostPoints;  // of each curve
  // By the names in the records, evaluations with "eval_", in the order in which records had them first.
  std::vector<std::pair<std::string, Curve>> curves = {};

  void Add(int64_t step, const NamedValues& values);
  const Curve* Find(absl::string_view name) const;  // null: no record has it
};

// The `text` of `path`, metrics.jsonl or by its end metrics.csv, up to `last_step`. A last line that was cut short is
// passed over, since the run may be writing it. InvalidArgument names `path` and the line that is no record.
[[nodiscard]] absl::StatusOr<RunCurves> ParseRecords(absl::string_view text, const std::string& path, int64_t last_step,
                                                     size_t most_points = Curve::kMostPoints);

// The output_dir that ReadRun's `path` names.
std::string FolderOfRun(const std::string& path);

// Of a run's output_dir (metrics.jsonl there, else metrics.csv) or of such a file, in any store; its name is that of
// the folder. Every point is kept. NotFound: there is none; InvalidArgument: it has no record.
[[nodiscard]] absl::StatusOr<RunCurves> ReadRun(const std::string& path);

}  // namespace distill
