#include "libdistill/core/deadline.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"

namespace distill {
namespace {

int64_t MonotonicNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

}  // namespace

Deadline Deadline::After(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return Never();
  return Deadline(duration, MonotonicNanos() + absl::ToInt64Nanoseconds(duration));
}

Deadline Deadline::Never() { return Deadline(absl::InfiniteDuration(), kNever); }

bool Deadline::Passed() const { return end_nanos_ != kNever && MonotonicNanos() >= end_nanos_; }

absl::Duration Deadline::Left() const {
  if (end_nanos_ == kNever) return absl::InfiniteDuration();
  return absl::Nanoseconds(std::max<int64_t>(0, end_nanos_ - MonotonicNanos()));
}

int Deadline::PollMilliseconds() const {
  if (end_nanos_ == kNever) return -1;
  const int64_t milliseconds = absl::ToInt64Milliseconds(Left() + absl::Microseconds(999));
  return static_cast<int>(std::min<int64_t>(milliseconds, std::numeric_limits<int>::max()));
}

absl::Status Deadline::Error(absl::string_view what) const {
  return absl::DeadlineExceededError(absl::StrCat(what, " took longer than ", absl::FormatDuration(allowed_)));
}

}  // namespace distill
