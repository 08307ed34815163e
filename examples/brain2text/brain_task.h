// Recordings, model and objective joined to the task that a Trainer takes.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "examples/brain2text/options.h"
#include "examples/brain2text/phoneme_objective.h"
#include "examples/brain2text/recordings.h"
#include "libdistill/run/run.h"
#include "libdistill/task/batch_task.h"

namespace distill {

struct BrainData {
  std::shared_ptr<BrainRecordings> train, held_out;  // the second one null: no session has any
};
// Opens the files of all sessions; BrainRecordings::Open has the errors.
[[nodiscard]] absl::StatusOr<BrainData> OpenBrainData(const Brain2TextOptions& options);

// A new model, drawn with the seed, on the device. InvalidArgument: its options make none.
[[nodiscard]] absl::StatusOr<std::shared_ptr<DayGru>> NewDayGru(const Brain2TextOptions& options, c10::Device device);

// The trials of a step that so many ranks share: batch_size, or the multiple of ranks times accumulation below it.
// InvalidArgument: there is none.
[[nodiscard]] absl::StatusOr<int64_t> TrialsOfStep(const Brain2TextOptions& options, int world_size);

// Each rank's batches of the recordings as they are, once and in order; and drawn, augmented ones without an end.
[[nodiscard]] absl::StatusOr<Batches<TensorBatch>> HeldOutBatches(const World& world, const Brain2TextOptions& options,
                                                                  std::shared_ptr<const BrainRecordings> recordings);
[[nodiscard]] absl::StatusOr<Batches<TensorBatch>> TrainingBatches(const World& world, const Brain2TextOptions& options,
                                                                   std::shared_ptr<const BrainRecordings> recordings);

[[nodiscard]] absl::StatusOr<std::unique_ptr<BatchTask<TensorBatch>>> MakeBrainTask(
    const World& world, const Brain2TextOptions& options, const BrainData& data,
    std::shared_ptr<PhonemeObjective> objective);

}  // namespace distill
