// What ends a communicator's calls from outside: an Abort, or a rank that is lost. Internal to comm/.
//
// A call that continues for the grace period after either is stuck in something that cannot be told to end (a driver, a
// vendor's library, an abort that itself blocks): a watchdog, which is a thread of its own, says which call it is and
// ends the process, so that the job's launcher can act.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/call_board.h"
#include "libdistill/world/rendezvous.h"

namespace distill {

class Lifeline {
 public:
  Lifeline() = default;
  // Joins the watchdog; tells nobody.
  ~Lifeline();

  // Before the first call. `timeout`: what a call is given, for messages. `describe` says which call a thread is in;
  // the watchdog asks only about one that is stuck. ResourceExhausted: there is no thread for the watchdog.
  [[nodiscard]] absl::Status Attach(std::shared_ptr<Rendezvous> rendezvous, absl::Duration timeout,
                                    absl::Duration grace, std::function<std::string(const CommCall&)> describe);

  // From any thread; never blocks. The first error stays.
  void Abort(const absl::Status& error);
  // The peers hear this rank's error, unless all know of one already.
  void Announce(const absl::Status& error);
  // Why calls must end, or OK. Any thread; never blocks.
  [[nodiscard]] absl::Status Check() const;
  // For a collective call that failed with DeadlineExceeded, which names whom this rank waited for: the ranks that have
  // not made it, by Rendezvous::ReportLate, or what else ended the job; else `status`, which says that it may name the
  // wrong one. Blocks for a few beats at most.
  [[nodiscard]] absl::Status FindLate(int64_t call, const absl::Status& status) const;
  // Whether Check would fail, as far as is known: costs no system call and no lock.
  bool broken() const { return aborted_.load(std::memory_order_acquire) || (rendezvous_ && rendezvous_->failed()); }

  // Around a call.
  void Enter(const CommCall& call) {
    if (!IsPair(call.operation)) board_.Add(call);
    operation_.store(call.operation, std::memory_order_relaxed);
    peer_.store(call.peer, std::memory_order_relaxed);
    number_.store(call.number, std::memory_order_release);
  }
  void Leave() { number_.store(0, std::memory_order_release); }

 private:
  void Watch(absl::Duration grace);
  std::vector<CallView> LastCalls() const;

  std::atomic<bool> aborted_{false};
  // The call that is under way.
  std::atomic<CommOperation> operation_{};
  std::atomic<int> peer_{-1};
  std::atomic<int64_t> number_{0};  // 0: there is none
  CallBoard board_;
  std::shared_ptr<Rendezvous> rendezvous_;
  absl::Duration timeout_;
  std::function<std::string(const CommCall&)> describe_;
  mutable std::mutex mutex_;
  absl::Status abort_error_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread watchdog_;
};

}  // namespace distill
