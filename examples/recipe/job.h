// What every recipe's job does besides training: it looks at its folders before anything is loaded, and leaves its
// config beside what it writes.
//
//   DISTILL_RETURN_IF_ERROR(BeginJob(run, options, {{"train_file", options.train_file}}));
//   ... load models and data ...
//   DISTILL_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(run, model, TrainerOptionsOf(options)));
//   DISTILL_RETURN_IF_ERROR(SaveConfig(run, TrainerOptionsOf(options)));
//   DISTILL_RETURN_IF_ERROR(trainer->Fit(*task).status());
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "examples/recipe/kept_options.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/run/run.h"

namespace distill {

// Options and the paths that they name; an empty path names nothing.
using NamedSources = std::vector<std::pair<std::string, std::string>>;

// For rank 0, before anything is loaded; `trainer` is TrainerOptionsOf's. InvalidArgument: a source lies in an
// output_dir that the run may replace; the folder holds checkpoints of this same run, so that the command was repeated
// without --resume_from_checkpoint; what CheckOutputFolder refuses (train/trainer_state.h). FailedPrecondition: another
// run writes there. Completes a save there that a crash has interrupted (FinishPublishing, checkpoint/checkpoint.h).
[[nodiscard]] absl::Status CheckFolders(const TrainerOptions& trainer, const NamedSources& sources);

// Every rank must call it; blocks. CheckFolders on rank 0, and its error on every rank.
[[nodiscard]] absl::Status AgreeOnFolders(RunContext& run, const TrainerOptions& trainer, const NamedSources& sources);

// Every rank must call it, first of all; blocks. FailedPrecondition: ranks whose options differ; AgreeOnFolders'
// errors.
template <class Options>
[[nodiscard]] absl::Status BeginJob(RunContext& run, const Options& options, const NamedSources& sources) {
  DISTILL_RETURN_IF_ERROR(RequireSameOnAllRanks(run.communicator(), ValuesOf(options)));
  return AgreeOnFolders(run, TrainerOptionsOf(options), sources);
}

// Every rank must call it, when Trainer::Create has not refused the folder; blocks. Rank 0 writes
// output_dir/resolved_config.yaml: every setting with the value that this run uses; it can be given as --config_file.
[[nodiscard]] absl::Status SaveConfig(RunContext& run, const TrainerOptions& trainer);

}  // namespace distill
