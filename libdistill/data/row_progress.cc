#include "libdistill/data/row_progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "libdistill/core/log.h"

namespace distill {

RowProgress::RowProgress(std::string name, int64_t bytes, Clock::duration interval)
    : name_(std::move(name)), bytes_(std::max<int64_t>(bytes, 1)), interval_(interval) {}

void RowProgress::Tell(int64_t rows, int64_t bytes) {
  const Clock::time_point now = Clock::now();
  if (now - last_ < interval_) return;
  last_ = now;
  const double share = std::clamp(static_cast<double>(bytes) / static_cast<double>(bytes_), 1e-9, 1.0);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  LogInfo(absl::StrFormat("%s: %d rows, %.0f %% of %.0f MB, %.0f s left", name_, rows, 100 * share,
                          std::ceil(static_cast<double>(bytes_) / 1e6), seconds / share - seconds));
}

}  // namespace distill
