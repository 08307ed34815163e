// The line that tells a person how far training is: rewritten in place on a terminal, else one line a record.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "libdistill/metrics/training_log.h"

namespace distill {

class Progress {
 public:
  Progress(FILE* out, bool is_terminal, int64_t done_steps, int64_t total_steps);

  void Show(int64_t step, const NamedValues& values);
  void ShowEvaluation(int64_t step, const NamedValues& values);
  // Leaves the rewritten line behind.
  void Finish();

 private:
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
