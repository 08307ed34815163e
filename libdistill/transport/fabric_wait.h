// How a call waits for the fabric: spin a little, then give the core away, then sleep until the provider has something.
// More ranks than cores make progress, and a rank that waits long costs next to nothing.
//
//   for (FabricWait wait(&endpoint); !operation.done; wait.Pause(/*busy=*/false)) {
//     DISTILL_ASSIGN_OR_RETURN(const bool polled, endpoint.Poll());
//     if (polled) wait.Restart();
//     if (wait.slow()) ...  // a look at the deadline, and for lost ranks
//   }
#pragma once

#include <algorithm>

#include "absl/time/time.h"
#include "libdistill/transport/message_endpoint.h"
#include "libdistill/world/backoff.h"

namespace distill {

class FabricWait {
 public:
  explicit FabricWait(MessageEndpoint* endpoint) : endpoint_(endpoint) {}
  void Restart() {
    backoff_ = Backoff();
    pauses_ = 0;
    look_ = kFirstLook;
  }
  // True once waiting sleeps, and now and then before.
  bool slow() const { return backoff_.slow() || asleep(); }
  // `busy`: the provider did not take an operation (a connection is being made, say): it does not tell when it will.
  void Pause(bool busy) {
    if (asleep() && !busy) {
      endpoint_->Sleep(look_, -1);
      look_ = std::min(look_ * 9 / 8, kLastLook);
    } else {
      ++pauses_;
      backoff_.Pause();
    }
  }

 private:
  // Spins, then about as long again in yields: with a wait object there is no reason to continue for longer.
  static constexpr int kBeforeSleep = 512;
  static constexpr int kBeforePoliteSleep = 4;
  // Between looks at the deadline and for lost ranks, while nothing wakes the rank: an eighth of the wait so far. A
  // look takes 10 microseconds, and 256 ranks that share two cores and wait for one of them leave it little in between.
  static constexpr absl::Duration kFirstLook = absl::Milliseconds(2);
  static constexpr absl::Duration kLastLook = absl::Milliseconds(20);
  bool asleep() const { return endpoint_->wakes() && pauses_ >= before_sleep_; }

  int BeforeSleep() const {
    if (!endpoint_->sleeps_late()) return 0;
    return Backoff::polite() ? kBeforePoliteSleep : kBeforeSleep;
  }

  MessageEndpoint* const endpoint_;
  const int before_sleep_ = BeforeSleep();
  Backoff backoff_;
  int pauses_ = 0;
  absl::Duration look_ = kFirstLook;
};

}  // namespace distill
