// Learning rate over the steps of a run: a warm-up, then what the type says, as transformers computes it
// (optimization.py, get_scheduler).
#pragma once

#include <cstdint>

#include "libdistill/optim/schedule_options.h"

namespace distill {

class Schedule {
 public:
  struct Options {
    SchedulerType type = SchedulerType::kCosine;
    ScheduleShape shape = {};
    double learning_rate = 0;  // the highest
    double warmup_ratio = 0;   // a share of all steps
    double warmup_steps = 0;   // above 0: instead; below 1 it is a share too
  };

  // Of options that CheckSchedule finds good. Shares are rounded up to steps.
  Schedule(const Options& options, int64_t total_steps);

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
