// What a study of many runs gathers of each: one line of JSON, appended to a file.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "examples/polarity/options.h"
#include "libdistill/metrics/observer.h"
#include "libdistill/run/run.h"
#include "libdistill/train/trainer.h"

namespace distill {

// How long steps take, from the end of one to that of the next.
class StepTimes : public Observer {
 public:
  [[nodiscard]] absl::Status OnStep(const StepRecord& record, TrainingControl& control) override;
  // Of the middle one, by time; 0 where there were less than two steps. What happens between a few of them, evaluations
  // and checkpoints, does not move it.
  double MedianSeconds() const;

 private:
  std::vector<std::chrono::steady_clock::time_point> ends_;
};

struct RunResults {
  TrainResult trained;
  double median_step_seconds = 0;
  double startup_seconds = 0;  // from the process's begin to the call of Fit
  double learning_rate = 0;    // as it was scaled
  int64_t global_batch = 0;    // rows of a step; 0: lengths decide
  int64_t train_samples = 0;
};

// Rank 0's line (docs of the fields: examples/polarity/README.md).
std::string ResultLine(const RunContext& run, const PolarityOptions& options, const RunResults& results);

// Every rank must call it; blocks. Rank 0 appends the line to options.results_file, if there is one. Errors are those
// of the store.
[[nodiscard]] absl::Status SaveResults(RunContext& run, const PolarityOptions& options, const RunResults& results);

}  // namespace distill
