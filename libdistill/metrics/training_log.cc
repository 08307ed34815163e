#include "libdistill/metrics/training_log.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
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
  std::unique_ptr<JsonlWriter> jsonl;
  std::unique_ptr<TensorBoardWriter> tensorboard;

  absl::Status Write(int64_t step, const NamedValues& values, const char* group, absl::string_view prefix) {
    if (jsonl == nullptr) return absl::OkStatus();
    DISTILL_RETURN_IF_ERROR(jsonl->Write(step, values));
    NamedValues tagged;
    for (const auto& [name, value] : values) {
      tagged.emplace_back(absl::StrCat(group, "/", absl::StripPrefix(name, prefix)), value);
    }
    return tensorboard->Write(step, tagged);
  }
};

TrainingLog::TrainingLog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TrainingLog::~TrainingLog() = default;

absl::StatusOr<std::unique_ptr<TrainingLog>> TrainingLog::Open(const std::string& output_dir, int64_t done_steps,
                                                               int64_t total_steps) {
  std::unique_ptr<Impl> impl(new Impl{Progress(stdout, SomebodyWatches(), done_steps, total_steps), {}, {}});
  if (!output_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(output_dir, error);
    if (error) {
      return absl::PermissionDeniedError(absl::StrCat("output_dir: cannot make ", output_dir, ": ", error.message()));
    }
    DISTILL_ASSIGN_OR_RETURN(impl->jsonl, JsonlWriter::Open(JoinPath(output_dir, "metrics.jsonl"), done_steps));
    DISTILL_ASSIGN_OR_RETURN(impl->tensorboard,
                             TensorBoardWriter::Open(JoinPath(output_dir, "tensorboard"), done_steps));
  }
  return std::unique_ptr<TrainingLog>(new TrainingLog(std::move(impl)));
}

absl::Status TrainingLog::Train(int64_t step, const NamedValues& values) {
  impl_->progress.Show(step, values);
  return impl_->Write(step, values, "train", "");
}

absl::Status TrainingLog::Evaluation(int64_t step, const NamedValues& values) {
  impl_->progress.ShowEvaluation(step, values);
  return impl_->Write(step, values, "eval", "eval_");
}

void TrainingLog::Final(const NamedValues& values) {
  impl_->progress.Finish();
  for (const auto& [name, value] : values) absl::PrintF("%s = %.6g\n", name, value);
  std::fflush(stdout);
}

}  // namespace distill
