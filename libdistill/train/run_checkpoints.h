// The checkpoints of one run, and the model that it publishes at the end. Every rank has one, and calls the same.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/metrics/best_evaluation.h"
#include "libdistill/run/run.h"
#include "libdistill/shard/trained_module.h"
#include "libdistill/task/task.h"
#include "libdistill/train/trainer_options.h"
#include "libdistill/train/trainer_state.h"

namespace distill {

class RunCheckpoints {
 public:
  // `writes_whole`: AgreedTask's.
  RunCheckpoints(RunContext& run, const TrainerOptions& options, Task& task, TrainedModule& trained, bool writes_whole)
      : run_(run), options_(options), task_(task), trained_(trained), writes_whole_(writes_whole) {}

  // Reads the tensors of the checkpoint that the options name, if any; UseRestoredTensors follows. A state of step 0:
  // there is none.
  [[nodiscard]] absl::StatusOr<TrainerState> Restore();
  // `state`: without the task's position and the best checkpoint, which it gets here. What it returns is the folder.
  [[nodiscard]] absl::StatusOr<std::string> Save(TrainerState& state);
  // `state`: of the last step. Nothing where that is the best one, or none is asked for.
  [[nodiscard]] absl::Status LoadBest(const BestEvaluation& best, const TrainerState& state);
  // The model into output_dir; nothing where there is none. checkpoint/final_save.h has what becomes of it on a full
  // disk; rank 0 alone is asked whether it gives up.
  [[nodiscard]] absl::Status Publish(const std::function<bool()>& gives_up);

  // On rank 0: "" where there is none yet.
  const std::string& newest() const { return newest_; }
  // NotFound on every rank where none is on the disk.
  [[nodiscard]] absl::Status RequireOne() const;
  // On rank 0, before the first step. ResourceExhausted: there is no space for the checkpoints that are kept, one more
  // that is written meanwhile, and the model. A warning where checkpoints that are all kept would fill the disk later.
  [[nodiscard]] absl::Status CheckSpace(int64_t total_steps) const;

 private:
  ModelWriter Writer();

  RunContext& run_;
  const TrainerOptions& options_;
  Task& task_;
  TrainedModule& trained_;
  const bool writes_whole_;
  std::string newest_;
};

}  // namespace distill
