// A point in time after which a blocking call gives up.
//
//   const Deadline deadline = Deadline::After(absl::Seconds(30));
//   while (!ready) { if (deadline.Passed()) return deadline.Error("waiting for rank 3"); ... }
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace distill {

// While it is on, no deadline that was made with it passes; when it goes off, each has all of its time anew. Any
// thread.
class DeadlinePause {
 public:
  // Again and again changes nothing.
  void On();
  void Off();

 private:
  friend class Deadline;
  std::atomic<int64_t> end_nanos_{0};  // of the monotonic clock; the largest: it is on
};

class Deadline {
 public:
  // `pause`, which may be null, must outlive it.
  static Deadline After(absl::Duration duration, const DeadlinePause* pause = nullptr);
  static Deadline Never();

  bool Passed() const;
  // Never negative; infinite for Never(), and all that was allowed during a pause.
  absl::Duration Left() const;
  // What is left in milliseconds for poll(2): rounded up, -1 for Never().
  int PollMilliseconds() const;
  // DeadlineExceeded: "<what> took longer than 30s".
  absl::Status Error(absl::string_view what) const;

 private:
  Deadline(absl::Duration allowed, int64_t end_nanos, const DeadlinePause* pause = nullptr)
      : allowed_(allowed), end_nanos_(end_nanos), pause_(pause) {}
  // As things are now.
  int64_t LeftNanos() const;

  absl::Duration allowed_;
  int64_t end_nanos_;  // of the monotonic clock: wall clocks jump
  const DeadlinePause* pause_;
};

}  // namespace distill
