// The line that tells a person how far training is: rewritten in place on a terminal, else one line a record.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "libdistill/metrics/observer.h"

namespace distill {

class Progress : public Observer {
 public:
  Progress(FILE* out, bool is_terminal, int64_t done_steps, int64_t total_steps);

  absl::Status OnLog(const StepRecord& record, TrainingControl&) override;
  absl::Status OnEvaluate(const EvaluationRecord& record, TrainingControl&) override;
  absl::Status OnEnd(const NamedValues& values) override;

 private:
  // Leaves the rewritten line behind.
  void EndLine();
  double SecondsLeft(int64_t step) const;

  FILE* out_;
  bool is_terminal_;
  bool line_is_open_ = false;
  int64_t first_step_;
  int64_t total_steps_;
  std::chrono::steady_clock::time_point start_;
};

// "1:02:03" or "02:03".
std::string ClockTime(double seconds);

}  // namespace distill
