// What a record of the log says of the steps since the last one.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "libdistill/metrics/observer.h"
#include "libdistill/proto/checkpoint_messages.h"

namespace distill {

// Means of the steps' losses and terms. A checkpoint keeps what is not logged yet, so that a resumed run writes the
// same records.
class RecordSums {
 public:
  void Add(const NamedValues& means);
  // The means over the steps since the last call, in the order of the last step's.
  NamedValues Take();
  void SaveTo(TrainerState& state) const;
  void Restore(const TrainerState& state);

 private:
  struct Sum {
    double sum = 0;
    int64_t steps = 0;  // that had the term
  };
  std::map<std::string, Sum> sums_;
};

// Counts seconds of training alone.
class TrainingClock {
 public:
  void Pause() {
    seconds_ = Seconds();
    start_.reset();
  }
  void Resume() { start_ = std::chrono::steady_clock::now(); }
  double Seconds() const {
    if (!start_.has_value()) return seconds_;
    return seconds_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - *start_).count();
  }

 private:
  double seconds_ = 0;
  std::optional<std::chrono::steady_clock::time_point> start_;
};

}  // namespace distill
