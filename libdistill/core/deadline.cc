#include "libdistill/core/deadline.h"

#include <algorithm>
#include <chrono>
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

void DeadlinePause::On() { end_nanos_.store(kNever, std::memory_order_release); }

void DeadlinePause::Off() {
  int64_t on = kNever;
  end_nanos_.compare_exchange_strong(on, MonotonicNanos(), std::memory_order_acq_rel);
}

Deadline Deadline::After(absl::Duration duration, const DeadlinePause* pause) {
  if (duration == absl::InfiniteDuration()) return Never();
  return Deadline(duration, MonotonicNanos() + absl::ToInt64Nanoseconds(duration), pause);
}

Deadline Deadline::Never() { return Deadline(absl::InfiniteDuration(), kNever); }

int64_t Deadline::LeftNanos() const {
  const int64_t paused_until = pause_ == nullptr ? 0 : pause_->end_nanos_.load(std::memory_order_acquire);
  const int64_t allowed = absl::ToInt64Nanoseconds(allowed_);
  if (paused_until == kNever) return allowed;
  const int64_t end = paused_until == 0 ? end_nanos_ : std::max(end_nanos_, paused_until + allowed);
  return std::max<int64_t>(0, end - MonotonicNanos());
}

bool Deadline::Passed() const { return end_nanos_ != kNever && LeftNanos() == 0; }

absl::Duration Deadline::Left() const {
  if (end_nanos_ == kNever) return absl::InfiniteDuration();
  return absl::Nanoseconds(LeftNanos());
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
