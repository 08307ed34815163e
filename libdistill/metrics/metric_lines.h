// "name = value" lines on stdout, which log scrapers match: SageMaker's `train_runtime.*=\D*(.*?)$`, say, finds its
// number in a line "train_runtime = 12.5". No other line that a run prints has one of those names before a "=".
#pragma once

#include <cstdint>
#include <cstdio>

#include "libdistill/metrics/observer.h"

namespace distill {

// A line for each value, and what is buffered goes out. What a program measures beside training goes through it too:
//
//   PrintMetrics(stdout, {{"f1", 88.5}, {"exact_match", 81.2}});
void PrintMetrics(FILE* out, const NamedValues& values);

// What a run did in so many seconds: "train_runtime", and "train_samples_per_second", "train_steps_per_second" and
// "train_tokens_per_second", which a task without tokens has not.
struct TrainedWork {
  double seconds = 0;
  int64_t samples = 0, steps = 0, tokens = 0;
};
NamedValues SpeedsOf(const TrainedWork& work);

// While training: "train_loss" and "epoch" with each record, and an evaluation's metrics with "eval_" before them.
class MetricLines : public Observer {
 public:
  explicit MetricLines(FILE* out) : out_(out) {}
  absl::Status OnLog(const StepRecord& record, TrainingControl&) override;
  absl::Status OnEvaluate(const EvaluationRecord& record, TrainingControl&) override;

 private:
  FILE* out_;
};

// The end of a run.
class Summary : public Observer {
 public:
  explicit Summary(FILE* out) : out_(out) {}
  absl::Status OnEnd(const NamedValues& values) override;

 private:
  FILE* out_;
};

}  // namespace distill
