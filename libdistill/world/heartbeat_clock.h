// When a rank beats, and whether it ran all the while.
#pragma once

#include <algorithm>

#include "absl/time/time.h"
#include "libdistill/core/deadline.h"

namespace distill {

class HeartbeatClock {
 public:
  // From now on, with a first beat at once. `timeout`: how long a peer may be silent.
  void Start(absl::Duration timeout) {
    timeout_ = timeout;
    next_ = Deadline::After(absl::ZeroDuration());
    awake_ = Deadline::After(timeout / 2);
  }
  bool started() const { return timeout_ != absl::InfiniteDuration(); }
  absl::Duration timeout() const { return timeout_; }

  bool due() const { return next_.Passed(); }
  int PollMilliseconds() const { return next_.PollMilliseconds(); }
  // Begins a beat. False: this process was stopped meanwhile, so that it has heard nobody; the silence was its own.
  bool Begin() {
    const bool ran = !awake_.Passed();
    next_ = Deadline::After(Interval());
    awake_ = Deadline::After(timeout_ / 2);
    return ran;
  }
  // Of the beats. A peer that beats once a second, and at least five times in a time-out, is not lost to a busy
  // machine.
  absl::Duration Interval() const { return std::min(absl::Seconds(1), timeout_ / 5); }
  // For a peer that was heard now.
  Deadline Patience() const { return Deadline::After(timeout_); }

 private:
  absl::Duration timeout_ = absl::InfiniteDuration();
  Deadline next_ = Deadline::Never();
  Deadline awake_ = Deadline::Never();  // passed: this process itself did not run
};

}  // namespace distill
