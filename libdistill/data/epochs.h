// Between steps and epochs: with packing, each epoch's shuffle makes another number of rows, so another number of
// steps.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace distill {

class EpochCounter {
 public:
  explicit EpochCounter(std::function<int64_t(int64_t epoch)> steps_in_epoch)
      : steps_in_epoch_(std::move(steps_in_epoch)) {}

  // Steps of `epochs` passes over the data, the last of them perhaps in part (rounded up); at least 1.
  int64_t StepsOf(double epochs);
  // How many passes `step` steps are: 2.5 in the middle of the third.
  double EpochsOf(int64_t step);
  // Whether `step` is the last one of an epoch.
  bool EndsEpoch(int64_t step);

 private:
  void AddEpoch();
  void AddEpochsUntil(int64_t step);

  std::function<int64_t(int64_t)> steps_in_epoch_;
  std::vector<int64_t> ends_;  // steps until the end of each epoch that was asked for
};

}  // namespace distill
