// How far a run is: what the loop keeps from step to step, and how it goes into and out of checkpoints.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/proto/checkpoint_messages.h"
#include "libdistill/run/run.h"
#include "libdistill/shard/ordered_save.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

using ModelWriter = std::function<absl::Status(const std::string& folder)>;

// Writes output_dir/checkpoint-STEP on rank 0, to which the others bring what is spread over ranks (ordered_save.h): it
// is whole in the files, so that another number of ranks can resume from it. `blocks`: as OrderedSave wants them. Every
// rank must call it; all return the same. After an error there is no such checkpoint, and the older ones stand.
[[nodiscard]] absl::Status SaveCheckpoint(RunContext& run, const TrainerOptions& options, const TensorState& tensors,
                                          ShardedBlocks* blocks, const ModelWriter& writer, TrainerState state);

// Whether options.resume_from_checkpoint asks for anything: not when it is empty, "false" or "none".
bool WantsToResume(const TrainerOptions& options);

// Whether it asks for the newest checkpoint of options.output_dir ("latest", "true"), and names none itself.
bool WantsNewest(const TrainerOptions& options);

// Whether it names a checkpoint, or finds one where it asks for the newest. To be asked on rank 0.
bool WillResume(const TrainerOptions& options);

// Whether what it asks for is in options.output_dir itself: the newest there, or one that is named and lies there. To
// be asked on rank 0.
bool ResumesInOutputDir(const TrainerOptions& options);

// InvalidArgument where options.output_dir holds what another run left and overwrite_output_dir is not set: checkpoints
// that the run would not resume from (a later "latest" could not tell whose they are), or a model and no checkpoints.
// FailedPrecondition where it is set and the folder holds what CheckRemovable names. To be asked on rank 0.
[[nodiscard]] absl::Status CheckOutputFolder(const TrainerOptions& options);

// For a user whose run is ended by a signal: that it resumes from `checkpoint`, the newest of this run, and the option
// for that; where it is "", why there is none. To be asked on rank 0.
std::string HowToResume(const TrainerOptions& options, const std::string& checkpoint);

// Reads the checkpoint that options.resume_from_checkpoint names on rank 0 and gives each rank its parts, one tensor
// after the other: the values of `tensors`, this rank's random state, and the returned state. `folder`, on rank 0, is
// the checkpoint's. Where "latest" or "true" find no checkpoint at all, the state is that of a new run (step 0); where
// all are damaged, DataLoss names the newest one's file. Every rank must call it.
[[nodiscard]] absl::StatusOr<TrainerState> RestoreCheckpoint(RunContext& run, const TrainerOptions& options,
                                                             const TensorState& tensors, std::string& folder);

// The values of `tensors` alone, from the checkpoint in rank 0's `folder`. Every rank must call it. ReadCheckpoint's
// errors; InvalidArgument: of another model.
[[nodiscard]] absl::Status RestoreTensors(RunContext& run, const std::string& folder, const TensorState& tensors);

}  // namespace distill
