// How far a run is: what the loop keeps from step to step, and how it goes into and out of checkpoints.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "libdistill/proto/checkpoint_messages.h"
#include "libdistill/train/adamw.h"
#include "libdistill/train/run.h"
#include "libdistill/train/trainer.h"

namespace distill {

using ModelWriter = std::function<absl::Status(const std::string& folder)>;

// Writes output_dir/checkpoint-STEP on rank 0 while the others wait. Every rank must call it; all return the same.
[[nodiscard]] absl::Status SaveCheckpoint(RunContext& run, const TrainerOptions& options, const AdamW& optimizer,
                                          const ModelWriter& writer, TrainerState state);

// Reads the checkpoint that options.resume_from_checkpoint names on rank 0 and gives it to all: the optimizer's tensors
// and working copies, this rank's random state, and the returned state. Without one to be found for "latest" or "true"
// the state is that of a new run. Every rank must call it.
[[nodiscard]] absl::StatusOr<TrainerState> RestoreCheckpoint(RunContext& run, const TrainerOptions& options,
                                                             AdamW& optimizer);

}  // namespace distill
