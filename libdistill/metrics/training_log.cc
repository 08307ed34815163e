#include "libdistill/metrics/training_log.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/metrics/csv_writer.h"
#include "libdistill/metrics/jsonl_writer.h"
#include "libdistill/metrics/progress.h"
#include "libdistill/metrics/tensorboard.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// mpirun gives its ranks a pseudo-terminal as stdout, wherever its own output goes; their stderr is a pipe.
bool SomebodyWatches() { return isatty(STDOUT_FILENO) == 1 && isatty(STDERR_FILENO) == 1; }

}  // namespace

struct TrainingLog::Impl {
  Progress progress;
  bool shows_progress;
  std::unique_ptr<JsonlWriter> jsonl;
  std::unique_ptr<CsvWriter> csv;
  std::unique_ptr<TensorBoardWriter> tensorboard;

  absl::Status OpenFiles(const LogOptions& options, int64_t done_steps);
  absl::Status Write(int64_t step, const NamedValues& values, const char* group, absl::string_view prefix) {
    if (jsonl != nullptr) DISTILL_RETURN_IF_ERROR(jsonl->Write(step, values));
    if (csv != nullptr) DISTILL_RETURN_IF_ERROR(csv->Write(step, values));
    if (tensorboard == nullptr) return absl::OkStatus();
    NamedValues tagged;
    for (const auto& [name, value] : values) {
      tagged.emplace_back(absl::StrCat(group, "/", absl::StripPrefix(name, prefix)), value);
    }
    return tensorboard->Write(step, tagged);
  }
};

TrainingLog::TrainingLog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TrainingLog::~TrainingLog() = default;

absl::Status TrainingLog::Impl::OpenFiles(const LogOptions& options, int64_t done_steps) {
  const std::string& folder = options.output_dir;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::PermissionDeniedError(absl::StrCat("output_dir: cannot make ", folder, ": ", error.message()));
  }
  for (const ReportTo report : options.report_to) {
    switch (report) {
      case ReportTo::kJsonl: {
        DISTILL_ASSIGN_OR_RETURN(jsonl, JsonlWriter::Open(JoinPath(folder, "metrics.jsonl"), done_steps));
        break;
      }
      case ReportTo::kTensorBoard: {
        const std::string curves = JoinPath(JoinPath(folder, "tensorboard"), options.run_name);
        DISTILL_ASSIGN_OR_RETURN(tensorboard, TensorBoardWriter::Open(curves, done_steps));
        break;
      }
      case ReportTo::kCsv: {
        DISTILL_ASSIGN_OR_RETURN(csv, CsvWriter::Open(JoinPath(folder, "metrics.csv"), done_steps));
        break;
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TrainingLog>> TrainingLog::Open(const LogOptions& options, int64_t done_steps,
                                                               int64_t total_steps) {
  std::unique_ptr<Impl> impl(
      new Impl{Progress(stdout, SomebodyWatches(), done_steps, total_steps), options.shows_progress, {}, {}, {}});
  if (!options.output_dir.empty()) DISTILL_RETURN_IF_ERROR(impl->OpenFiles(options, done_steps));
  return std::unique_ptr<TrainingLog>(new TrainingLog(std::move(impl)));
}

absl::Status TrainingLog::Train(int64_t step, const NamedValues& values) {
  if (impl_->shows_progress) impl_->progress.Show(step, values);
  return impl_->Write(step, values, "train", "");
}

absl::Status TrainingLog::Evaluation(int64_t step, const NamedValues& values) {
  if (impl_->shows_progress) impl_->progress.ShowEvaluation(step, values);
  return impl_->Write(step, values, "eval", "eval_");
}

void TrainingLog::Final(const NamedValues& values) {
  impl_->progress.Finish();
  for (const auto& [name, value] : values) absl::PrintF("%s = %.6g\n", name, value);
  std::fflush(stdout);
}

}  // namespace distill
