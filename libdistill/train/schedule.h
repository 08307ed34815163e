// Learning rate over the steps of a run: a warm-up, then what the type says, as transformers computes it
// (optimization.py, get_scheduler).
#pragma once

#include <cstdint>

#include "libdistill/train/trainer_options.h"

namespace distill {

class Schedule {
 public:
  // Of options that CheckOptions finds good. The warm-up takes warmup_steps, or that share of all steps, or else the
  // share warmup_ratio; shares are rounded up.
  Schedule(const TrainerOptions& options, int64_t total_steps);

  // For the update of step `step`, counted from 1. The first step of a warm-up has rate 0, as in transformers.
  double LearningRate(int64_t step) const;

 private:
  double Share(double done) const;
  double WarmupShare(double done) const;
  double Cosine(double past, double rest, double cycles) const;
  double StableDecayShare(double done) const;

  SchedulerType type_;
  ScheduleShape shape_;
  double learning_rate_;
  double lowest_ = 0;              // the lowest rate, as a share of learning_rate_
  double warmup_ = 0, total_ = 1;  // steps
};

}  // namespace distill
