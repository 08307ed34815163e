#include "libdistill/metrics/reports.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/metrics/csv_writer.h"
#include "libdistill/metrics/jsonl_writer.h"
#include "libdistill/metrics/progress.h"
#include "libdistill/metrics/tensorboard.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// mpirun gives its ranks a pseudo-terminal as stdout, wherever its own output goes; their stderr is a pipe.
bool SomebodyWatches() { return isatty(STDOUT_FILENO) == 1 && isatty(STDERR_FILENO) == 1; }

absl::StatusOr<std::shared_ptr<Observer>> Open(ReportTo report, const LogOptions& options, int64_t done_steps) {
  const std::string& folder = options.output_dir;
  switch (report) {
    case ReportTo::kJsonl:
      return JsonlWriter::Open(JoinPath(folder, "metrics.jsonl"), done_steps);
    case ReportTo::kCsv:
      return CsvWriter::Open(JoinPath(folder, "metrics.csv"), done_steps);
    case ReportTo::kTensorBoard:
      return TensorBoardWriter::Open(JoinPath(JoinPath(folder, "tensorboard"), options.run_name), done_steps);
  }
  return absl::InternalError("report_to has a value without a name");
}

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<Observer>>> OpenReports(const LogOptions& options, int64_t done_steps,
                                                                   int64_t total_steps) {
  std::vector<std::shared_ptr<Observer>> reports;
  if (options.shows_progress) {
    reports.push_back(std::make_shared<Progress>(stdout, SomebodyWatches(), done_steps, total_steps));
  }
  reports.push_back(std::make_shared<Summary>(stdout));
  if (options.output_dir.empty()) return reports;
  const absl::Status made = MakeFolder(options.output_dir);
  if (!made.ok()) return absl::PermissionDeniedError(absl::StrCat("output_dir: ", made.message()));
  for (const ReportTo report : options.report_to) {
    DISTILL_ASSIGN_OR_RETURN(reports.emplace_back(), Open(report, options, done_steps));
  }
  return reports;
}

}  // namespace distill
