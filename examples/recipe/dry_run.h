// --dry_run: a recipe's whole job, as the user's config asks for it, with one step of few samples. Models, data and
// output_dir are those of the config; what the job writes goes to a temporary folder, which is removed.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/description.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/run/run.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

// A folder of rank 0's host, under TMPDIR or /tmp, whose path all ranks know. Gone with rank 0's object.
class TemporaryFolder {
 public:
  // Every rank must call it; blocks.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Make(RunContext& run);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  TemporaryFolder(std::string path, bool removes) : path_(std::move(path)), removes_(removes) {}
  const std::string path_;
  const bool removes_;
};

// The same training, but one step into `folder`, which is not to resume and saves no checkpoint.
TrainerOptions OneStepInto(const std::string& folder, TrainerOptions options);

struct DryRunReport {
  std::string program;
  std::string output_dir;      // that the config names
  FieldValues asked, settled;  // every option as the config has it, and as the dry run had it
};
// On rank 0: what was done with which losses, out of the metrics.jsonl in `folder`, which options were other than asked
// for, and what was written. A text for people.
[[nodiscard]] absl::StatusOr<std::string> DescribeDryRun(const RunContext& run, const DryRunReport& report,
                                                         const std::string& folder);

// On rank 0: whether output_dir would be accepted. InvalidArgument as in CheckOutputFolder (train/trainer_state.h).
[[nodiscard]] absl::Status CheckForDryRun(const TrainerOptions& asked);

// Every rank must call it; blocks. `shrink` makes few short samples of the options' data; `job` is the recipe's. Rank 0
// prints the report. Errors are those of the job.
template <class Options>
[[nodiscard]] absl::Status DryRun(RunContext& run, const std::string& program, const Options& asked,
                                  const std::function<void(Options& options)>& shrink,
                                  const std::function<absl::Status(RunContext& run, const Options& options)>& job) {
  DISTILL_RETURN_IF_ERROR(
      Agree(run.communicator(), run.rank() == 0 ? CheckForDryRun(asked.trainer) : absl::OkStatus()));
  DISTILL_ASSIGN_OR_RETURN(const auto folder, TemporaryFolder::Make(run));
  Options options = asked;
  shrink(options);
  options.trainer = OneStepInto(folder->path(), options.trainer);
  DISTILL_RETURN_IF_ERROR(job(run, options));
  if (run.rank() != 0) return absl::OkStatus();
  DISTILL_ASSIGN_OR_RETURN(
      const std::string text,
      DescribeDryRun(run, {program, asked.trainer.output_dir, ValuesOf(asked), ValuesOf(options)}, folder->path()));
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace distill
