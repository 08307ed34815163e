// Where a run's records go, by the names that transformers' report_to has.
#pragma once

#include <string>
#include <vector>

#include "libdistill/core/describe.h"

namespace distill {

// metrics.jsonl, the folder tensorboard, metrics.csv, the picture curves.png (docs/formats.md, "Metrics").
enum class ReportTo { kJsonl, kTensorBoard, kCsv, kCurves };
constexpr EnumNames<ReportTo, 4> NamesOf(ReportTo) {
  return {{{"jsonl", ReportTo::kJsonl},
           {"tensorboard", ReportTo::kTensorBoard},
           {"csv", ReportTo::kCsv},
           {"curves", ReportTo::kCurves}}};
}
inline std::vector<ReportTo> DefaultReports() { return {ReportTo::kJsonl, ReportTo::kTensorBoard, ReportTo::kCurves}; }

struct LogOptions {
  std::string output_dir = {};  // empty: no files
  std::vector<ReportTo> report_to = DefaultReports();
  // The picture's title, and TensorBoard's curves go into a folder of this name; empty: into "tensorboard" itself.
  std::string run_name = {};
  bool shows_progress = true;   // on stdout
  bool prints_metrics = false;  // there, too: a line for each value that log scrapers read
};

}  // namespace distill
