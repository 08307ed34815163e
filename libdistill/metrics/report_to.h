// Where a run's records go, by the names that transformers' report_to has.
#pragma once

#include <string>
#include <vector>

#include "libdistill/core/describe.h"

namespace distill {

// metrics.jsonl, the folder tensorboard, metrics.csv (docs/formats.md, "Metrics").
enum class ReportTo { kJsonl, kTensorBoard, kCsv };
constexpr EnumNames<ReportTo, 3> NamesOf(ReportTo) {
  return {{{"jsonl", ReportTo::kJsonl}, {"tensorboard", ReportTo::kTensorBoard}, {"csv", ReportTo::kCsv}}};
}

struct LogOptions {
  std::string output_dir = {};  // empty: no files
  std::vector<ReportTo> report_to = {ReportTo::kJsonl, ReportTo::kTensorBoard};
  std::string run_name = {};   // TensorBoard's curves go into a folder of this name; empty: into "tensorboard" itself
  bool shows_progress = true;  // on stdout
};

}  // namespace distill
