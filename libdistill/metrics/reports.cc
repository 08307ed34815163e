#include "libdistill/metrics/reports.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/metrics/csv_writer.h"
#include "libdistill/metrics/curve_drawer.h"
#include "libdistill/metrics/jsonl_writer.h"
#include "libdistill/metrics/metric_lines.h"
#include "libdistill/metrics/progress.h"
#include "libdistill/metrics/tensorboard.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// mpirun gives its ranks a pseudo-terminal as stdout, wherever its own output goes; their stderr is a pipe.
bool SomebodyWatches() { return isatty(STDOUT_FILENO) == 1 && isatty(STDERR_FILENO) == 1; }

bool HasReport(const LogOptions& options, ReportTo report) {
  return std::find(options.report_to.begin(), options.report_to.end(), report) != options.report_to.end();
}

absl::StatusOr<RunCurves> ReadRecords(const std::string& path, int64_t done_steps) {
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseRecords(text, path, done_steps);
}

// What the run that this one resumes has recorded, out of a file that this one continues. Without one the picture
// begins here.
RunCurves EarlierCurves(const LogOptions& options, int64_t done_steps) {
  RunCurves run{.name = options.run_name.empty() ? options.output_dir : options.run_name};
  const bool has_jsonl = HasReport(options, ReportTo::kJsonl);
  if (done_steps == 0 || !(has_jsonl || HasReport(options, ReportTo::kCsv))) return run;
  absl::StatusOr<RunCurves> earlier =
      ReadRecords(JoinPath(options.output_dir, has_jsonl ? "metrics.jsonl" : "metrics.csv"), done_steps);
  if (earlier.ok()) {
    run.curves = std::move(earlier->curves);
  } else {
    LogWarning(absl::StrCat(earlier.status().message(), "; curves.png begins with this run's own records"));
  }
  return run;
}

absl::StatusOr<std::shared_ptr<Observer>> Open(ReportTo report, const LogOptions& options, int64_t done_steps) {
  const std::string& folder = options.output_dir;
  switch (report) {
    case ReportTo::kJsonl:
      return JsonlWriter::Open(JoinPath(folder, "metrics.jsonl"), done_steps);
    case ReportTo::kCsv:
      return CsvWriter::Open(JoinPath(folder, "metrics.csv"), done_steps);
    case ReportTo::kTensorBoard:
      return TensorBoardWriter::Open(JoinPath(JoinPath(folder, "tensorboard"), options.run_name), done_steps);
    case ReportTo::kCurves:
      return std::make_shared<CurveDrawer>(JoinPath(folder, "curves.png"), EarlierCurves(options, done_steps));
  }
  return absl::InternalError("report_to has a value without a name");
}

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<Observer>>> OpenReports(const LogOptions& options, int64_t done_steps,
                                                                   int64_t total_steps) {
  std::vector<std::shared_ptr<Observer>> reports;
  if (options.shows_progress) {
    // Lines for scrapers cannot follow one that is rewritten in place.
    const bool is_rewritten = SomebodyWatches() && !options.prints_metrics;
    reports.push_back(std::make_shared<Progress>(stdout, is_rewritten, done_steps, total_steps));
  }
  if (options.prints_metrics) reports.push_back(std::make_shared<MetricLines>(stdout));
  reports.push_back(std::make_shared<Summary>(stdout));
  if (options.output_dir.empty()) return reports;
  const absl::Status made = MakeFolder(options.output_dir);
  if (!made.ok()) return absl::PermissionDeniedError(absl::StrCat("output_dir: ", made.message()));
  std::vector<ReportTo> wanted = options.report_to;
  // The picture last, when the files that it reads have lost the steps that are made again.
  std::stable_partition(wanted.begin(), wanted.end(), [](ReportTo report) { return report != ReportTo::kCurves; });
  for (const ReportTo report : wanted) {
    DISTILL_ASSIGN_OR_RETURN(reports.emplace_back(), Open(report, options, done_steps));
  }
  return reports;
}

}  // namespace distill
