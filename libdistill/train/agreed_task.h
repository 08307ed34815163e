// What ranks agree on before the first step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/epochs.h"
#include "libdistill/run/run.h"
#include "libdistill/task/task.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

// Of a trainer: settings, kind of device, names, shapes and types of parameters and buffers.
Fields FingerprintOf(const torch::nn::Module& module, c10::Device device, const TrainerOptions& options);

struct AgreedTask {
  std::vector<TermWeight> terms = {};   // its loss terms
  std::vector<std::string> names = {};  // of all that passes report on any rank
  int64_t total_steps = 0;
  bool writes_whole = false;  // rank 0's writer may look at any weight
};

// Starts the task on the run's device. `also`: what this rank may fail at besides, under the same agreement. Every rank
// must call it. InvalidArgument: names of terms that clash, evaluations without held-out data. FailedPrecondition:
// ranks that differ in steps, terms or fingerprints.
[[nodiscard]] absl::StatusOr<AgreedTask> AgreeOnTask(RunContext& run, Task& task, const torch::nn::Module& module,
                                                     const TrainerOptions& options, EpochCounter& epochs,
                                                     const std::function<absl::Status()>& also);

}  // namespace distill
