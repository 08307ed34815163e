// What ends a communicator's calls from outside: an Abort, or a rank that is lost. Internal to comm/.
//
// A call that continues for the grace period after either is stuck in something that cannot be told to end (a driver, a
// vendor's library, an abort that itself blocks): a watchdog, which is a thread of its own, says which call it is and
// ends the process, so that the job's launcher can act. For the communicator of a whole job it does so outside of calls
// too (a write that never ends): who goes on after an error destroys the communicator within the grace period.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
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

  // Before the first call. `timeout`: what a call is given, for messages. `describe` says which call a thread is in,
  // or, of number 0, who is in none; the watchdog asks only about one that is stuck. ResourceExhausted: there is no
  // thread for the watchdog.
  [[nodiscard]] absl::Status Attach(std::shared_ptr<Rendezvous> rendezvous, absl::Duration timeout,
                                    absl::Duration grace, std::function<std::string(const CommCall&)> describe);
  // From now on the watchdog does not end with the calls.
  void WatchOutsideOfCalls() { watches_all_ = true; }
  // Null before Attach.
  std::shared_ptr<BusyRanks> busy() const { return rendezvous_ != nullptr ? rendezvous_->busy() : nullptr; }

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
  // For a call that failed with DeadlineExceeded: also says which rank is in a phase that is over its limit.
  [[nodiscard]] absl::Status NameOverdue(const absl::Status& status) const;
  // Whether Check would fail, as far as is known: costs no system call and no lock.
  bool broken() const { return aborted_.load(std::memory_order_acquire) || (rendezvous_ && rendezvous_->failed()); }

  // Around a call.
  void Enter(const CommCall& call, bool is_part) {
    if (!is_part && rendezvous_ != nullptr) is_told_ = rendezvous_->busy()->EnterCall();
    if (!IsPair(call.operation)) board_.Add(call);
    operation_.store(call.operation, std::memory_order_relaxed);
    peer_.store(call.peer, std::memory_order_relaxed);
    number_.store(call.number, std::memory_order_release);
  }
  void Leave() {
    number_.store(0, std::memory_order_release);
    if (std::exchange(is_told_, false)) rendezvous_->busy()->LeaveCall();
  }

 private:
  void Watch(absl::Duration grace);
  [[noreturn]] void EndProcess(const CommCall& call, absl::Duration grace) const;
  std::vector<CallView> LastCalls() const;

  std::atomic<bool> aborted_{false};
  // The call that is under way.
  std::atomic<CommOperation> operation_{};
  std::atomic<int> peer_{-1};
  std::atomic<int64_t> number_{0};  // 0: there is none
  bool is_told_ = false;            // the call of this number, to those who hear what this rank is busy with
  std::atomic<bool> watches_all_{false};
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
