// How long training waited for data, and when that is worth a warning.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace distill {

// Of one step: the longest wait of any rank, for which all others wait too.
struct DataWait {
  double seconds = 0;
  int rank = 0;  // whose it was
};

class DataWaits {
 public:
  // More than this share of the time is worth a warning.
  static constexpr double kShare = 0.05;
  // Records that follow one another are judged together until they make so many seconds of training.
  static constexpr double kJudgedSeconds = 10;
  // So many seconds of training lie between two warnings.
  static constexpr double kQuietSeconds = 600;

  void Add(const DataWait& of_step);
  // At a record: the seconds waited since the last one.
  double Take();
  // Then, with the seconds of training of the same steps: which rank waited longest and what share of the time went by,
  // where that is worth a warning now. The first step is left out: nothing can be made ahead of it.
  struct Warning {
    int rank = 0;
    double share = 0;
    double seconds = 0;  // of training that were judged
  };
  std::optional<Warning> Judge(double spent_seconds);

  // Of all steps.
  double total_seconds() const { return total_seconds_; }

 private:
  double total_seconds_ = 0, since_record_ = 0;
  bool has_first_ = false;
  std::map<int, double> judged_waits_;  // by rank
  double judged_seconds_ = 0;
  double quiet_seconds_ = kQuietSeconds;  // since the last warning
};

// "12% of the last 30 s of training went by waiting for data, ...", with what to do. `rank`: as messages name it.
std::string TextOf(const DataWaits::Warning& warning, const std::string& rank);

}  // namespace distill
