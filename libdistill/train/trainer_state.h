// How far a run is: what the loop keeps from step to step, and how it goes into and out of checkpoints.
#pragma once

#include <functional>
#include <map>
#include <string>

#include <torch/types.h>

#include "absl/status/statusor.h"
#include "libdistill/proto/checkpoint_messages.h"
#include "libdistill/train/run.h"
#include "libdistill/train/spread_tensor.h"
#include "libdistill/train/trainer.h"

namespace distill {

using ModelWriter = std::function<absl::Status(const std::string& folder)>;

// Everything that a resumed run needs, by name: the optimizer's tensors and the module's buffers.
using TensorState = std::map<std::string, SpreadTensor>;

// Writes output_dir/checkpoint-STEP on rank 0 while the others wait; what is spread over ranks is whole in it, so that
// another number of ranks can go on from it. Every rank must call it; all return the same.
[[nodiscard]] absl::Status SaveCheckpoint(RunContext& run, const TrainerOptions& options, const TensorState& tensors,
                                          const ModelWriter& writer, TrainerState state);

// Whether options.resume_from_checkpoint asks for anything: not when it is empty, "false" or "none".
bool WantsToResume(const TrainerOptions& options);

// InvalidArgument where options.output_dir holds checkpoints and the run would not go on from them: a later "latest"
// could not tell whose they are. To be asked on rank 0.
[[nodiscard]] absl::Status CheckOutputFolder(const TrainerOptions& options);

// Reads the checkpoint that options.resume_from_checkpoint names on rank 0 and gives it to all: the values of
// `tensors`, this rank's random state, and the returned state. Where "latest" or "true" find no checkpoint at all, the
// state is that of a new run (step 0); where all are damaged, DataLoss names the newest one's file. Every rank must
// call it.
[[nodiscard]] absl::StatusOr<TrainerState> RestoreCheckpoint(RunContext& run, const TrainerOptions& options,
                                                             const TensorState& tensors);

}  // namespace distill
