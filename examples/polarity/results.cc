#include "examples/polarity/results.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/file_error.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

// In one piece at the end of what is there: what other jobs have written stays, whatever happens to this one.
absl::Status AppendToLocal(const std::string& path, const std::string& line) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return FileError("open", path, errno);
  const auto size = static_cast<ssize_t>(line.size());
  const ssize_t written = write(file, line.data(), line.size());
  const int error = written == size ? 0 : written < 0 ? errno : ENOSPC;
  close(file);
  return error == 0 ? absl::OkStatus() : FileError("write", path, error);
}

// An object of S3 is replaced as a whole, so that of two jobs which end at one time one may lose its line.
absl::Status Append(const std::string& path, const std::string& line) {
  if (!IsRemote(path)) return AppendToLocal(path, line + "\n");
  std::string text;
  if (FileExists(path)) {
    DISTILL_ASSIGN_OR_RETURN(text, ReadFile(path));
  }
  return WriteWholeFile(path, absl::StrCat(text, line, "\n"));
}

}  // namespace

absl::Status StepTimes::OnStep(const StepRecord&, TrainingControl&) {
  ends_.push_back(std::chrono::steady_clock::now());
  return absl::OkStatus();
}

double StepTimes::MedianSeconds() const {
  std::vector<double> seconds;
  for (size_t i = 1; i < ends_.size(); ++i) {
    seconds.push_back(std::chrono::duration<double>(ends_[i] - ends_[i - 1]).count());
  }
  if (seconds.empty()) return 0;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

std::string ResultLine(const RunContext& run, const PolarityOptions& options, const RunResults& results) {
  const World& world = run.world();
  nlohmann::ordered_json line = {{"recipe", "polarity"},
                                 {"run_name", options.trainer.run_name},
                                 {"world_size", world.world_size},
                                 {"ranks_per_host", world.local_size},
                                 {"device", run.device().str()},
                                 {"dtype", c10::toString(WorkingType(options.trainer, run.device()))},
                                 {"train_samples", results.train_samples},
                                 {"global_batch", results.global_batch},
                                 {"learning_rate", results.learning_rate},
                                 {"learning_rate_scaling", FieldText(options.rate_scaling.scaling)},
                                 {"steps", results.trained.steps},
                                 {"startup_seconds", results.startup_seconds},
                                 {"wall_seconds", absl::ToDoubleSeconds(run.age())},
                                 {"median_step_seconds", results.median_step_seconds}};
  for (const auto& [name, value] : results.trained.metrics) line[name] = value;
  return line.dump();
}

absl::Status SaveResults(RunContext& run, const PolarityOptions& options, const RunResults& results) {
  if (options.results_file.empty()) return absl::OkStatus();
  absl::Status mine;
  if (run.rank() == 0) mine = Annotate(Append(options.results_file, ResultLine(run, options, results)), "results_file");
  return Agree(run.communicator(), mine);
}

}  // namespace distill
