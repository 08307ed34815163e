#include "libdistill/metrics/data_wait.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace distill {

void DataWaits::Add(const DataWait& of_step) {
  total_seconds_ += of_step.seconds;
  since_record_ += of_step.seconds;
  if (has_first_) judged_waits_[of_step.rank] += of_step.seconds;
  has_first_ = true;
}

double DataWaits::Take() {
  const double seconds = since_record_;
  since_record_ = 0;
  return seconds;
}

std::optional<DataWaits::Warning> DataWaits::Judge(double spent_seconds) {
  judged_seconds_ += spent_seconds;
  quiet_seconds_ += spent_seconds;
  if (judged_seconds_ < kJudgedSeconds) return std::nullopt;
  Warning warning{.seconds = judged_seconds_};
  double waited = 0, most = -1;
  for (const auto& [rank, seconds] : judged_waits_) {
    waited += seconds;
    if (seconds > most) warning.rank = rank;
    most = std::max(most, seconds);
  }
  warning.share = waited / judged_seconds_;
  judged_waits_.clear();
  judged_seconds_ = 0;
  if (warning.share <= kShare || quiet_seconds_ < kQuietSeconds) return std::nullopt;
  quiet_seconds_ = 0;
  return warning;
}

std::string TextOf(const DataWaits::Warning& warning, const std::string& rank) {
  return absl::StrFormat(
      "%.0f%% of the last %.0f s of training went by waiting for data, mostly that of %s: raise dataloader_num_workers "
      "(more samples are read at once) or dataloader_prefetch_factor (more is made ahead), or move the data nearer",
      100 * warning.share, warning.seconds, rank);
}

}  // namespace distill
