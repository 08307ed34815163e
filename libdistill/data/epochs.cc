#include "libdistill/data/epochs.h"

#include <algorithm>
#include <cmath>

namespace distill {

void EpochCounter::AddEpoch() {
  const int64_t steps = steps_in_epoch_(static_cast<int64_t>(ends_.size()));
  ends_.push_back((ends_.empty() ? 0 : ends_.back()) + std::max<int64_t>(1, steps));
}

int64_t EpochCounter::StepsOf(double epochs) {
  const size_t whole = static_cast<size_t>(epochs);
  const double rest = epochs - static_cast<double>(whole);
  while (ends_.size() < whole) AddEpoch();
  const int64_t begin = whole == 0 ? 0 : ends_[whole - 1];
  if (rest == 0) return std::max<int64_t>(1, begin);
  if (ends_.size() == whole) AddEpoch();
  // A fraction that binary numbers only come near must not add a step.
  const double steps = rest * static_cast<double>(ends_[whole] - begin);
  return std::max<int64_t>(1, begin + static_cast<int64_t>(std::ceil(steps - 1e-6)));
}

void EpochCounter::AddEpochsUntil(int64_t step) {
  while (ends_.empty() || ends_.back() < step) AddEpoch();
}

bool EpochCounter::EndsEpoch(int64_t step) {
  AddEpochsUntil(step);
  return std::binary_search(ends_.begin(), ends_.end(), step);
}

double EpochCounter::EpochsOf(int64_t step) {
  AddEpochsUntil(step);
  const auto end = std::lower_bound(ends_.begin(), ends_.end(), step);
  const int64_t begin = end == ends_.begin() ? 0 : *(end - 1);
  return static_cast<double>(end - ends_.begin()) +
         static_cast<double>(step - begin) / static_cast<double>(*end - begin);
}

}  // namespace distill
