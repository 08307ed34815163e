#include "libdistill/transport/fabric_progress.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/world/backoff.h"

namespace distill {
namespace {

// Some tens of microseconds: a wake-up costs several.
constexpr int kSpins = 2000;
// Without a core to spin on: giving the core away a few times lets the other side run, and spares both the wake-up.
constexpr int kYields = 50;
// Between looks at an endpoint that says when there is something, and at one that does not.
constexpr absl::Duration kLongestSleep = absl::Milliseconds(100);
constexpr absl::Duration kShortestNap = absl::Microseconds(50);
constexpr absl::Duration kLongestNap = absl::Milliseconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<FabricProgress>> FabricProgress::Start(std::unique_ptr<FabricEndpoint> endpoint,
                                                                      bool spins) {
  std::unique_ptr<FabricProgress> progress(new FabricProgress(std::move(endpoint), spins));
  progress->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (progress->wake_ < 0) return absl::ResourceExhaustedError(absl::StrCat("no eventfd: ", std::strerror(errno)));
  DISTILL_ASSIGN_OR_RETURN(progress->thread_,
                           StartThread("the fabric", [progress = progress.get()] { progress->Serve(); }));
  return progress;
}

FabricProgress::~FabricProgress() {
  if (thread_.joinable()) {
    Hand(kStopping);
    thread_.join();
  }
  if (wake_ >= 0) close(wake_);
}

absl::Status FabricProgress::Run(absl::FunctionRef<absl::Status()> work) {
  if (std::this_thread::get_id() == thread_.get_id()) return work();
  work_ = &work;
  polite_ = Backoff::polite();
  Hand(kHanded);
  while (!SpinWhile(kHanded)) state_.wait(kHanded, std::memory_order_acquire);
  return std::exchange(result_, absl::OkStatus());
}

// The thread says that it sleeps before it looks at the state for the last time; this side stores the state before it
// looks whether the thread sleeps. One of the two sees the other.
void FabricProgress::Hand(State state) {
  state_.store(state, std::memory_order_seq_cst);
  if (!asleep_.load(std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));  // fails only when it is full: then the thread wakes as well
}

// Whether the state is another one.
bool FabricProgress::SpinWhile(State state) const {
  for (int i = 0; i < (spins_ ? kSpins : kYields) && state_.load(std::memory_order_acquire) == state; ++i) {
    if (!spins_) {
      sched_yield();
      continue;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  return state_.load(std::memory_order_acquire) != state;
}

void FabricProgress::Serve() {
  for (;;) {
    if (!SpinWhile(kIdle)) AwaitWork();
    if (state_.load(std::memory_order_acquire) == kStopping) return;
    Backoff::WaitPolitely(polite_);
    (void)endpoint_->serves(/*in_call=*/true);
    result_ = (*work_)();
    state_.store(kIdle, std::memory_order_release);
    state_.notify_all();
  }
}

void FabricProgress::AwaitWork() {
  absl::Duration nap = kShortestNap;
  while (state_.load(std::memory_order_acquire) == kIdle) {
    const bool serves = endpoint_->serves(/*in_call=*/false);
    const bool polls = serves && broken_.ok() && !endpoint_->progresses_alone();
    bool found = false;
    if (polls) {
      const absl::StatusOr<bool> polled = endpoint_->Poll();
      broken_ = polled.status();
      found = polled.ok() && *polled;
    }
    nap = found ? kShortestNap : std::min(2 * nap, kLongestNap);
    if (!found) Sleep(endpoint_->wakes() || !polls || !broken_.ok() ? kLongestSleep : nap, polls && broken_.ok());
  }
}

void FabricProgress::Sleep(absl::Duration limit, bool polls) {
  asleep_.store(true, std::memory_order_seq_cst);
  if (state_.load(std::memory_order_seq_cst) == kIdle) endpoint_->SleepFor(limit, wake_, polls);
  asleep_.store(false, std::memory_order_relaxed);
  uint64_t count = 0;
  (void)!read(wake_, &count, sizeof(count));  // nothing there is as good
}

}  // namespace distill
