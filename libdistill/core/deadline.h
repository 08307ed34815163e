// A point in time after which a blocking call gives up.
//
//   const Deadline deadline = Deadline::After(absl::Seconds(30));
//   while (!ready) { if (deadline.Passed()) return deadline.Error("waiting for rank 3"); ... }
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace distill {

class Deadline {
 public:
  static Deadline After(absl::Duration duration);
  static Deadline Never();

  bool Passed() const;
  // Never negative; infinite for Never().
  absl::Duration Left() const;
  // What is left in milliseconds for poll(2): rounded up, -1 for Never().
  int PollMilliseconds() const;
  // DeadlineExceeded: "<what> took longer than 30s".
  absl::Status Error(absl::string_view what) const;

 private:
  Deadline(absl::Duration allowed, int64_t end_nanos) : allowed_(allowed), end_nanos_(end_nanos) {}

  absl::Duration allowed_;
  int64_t end_nanos_;  // of the monotonic clock: wall clocks jump
};

}  // namespace distill
