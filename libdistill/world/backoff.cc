#include "libdistill/world/backoff.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>

namespace distill {
namespace {

thread_local bool waits_politely = false;

// Giving the core away takes about one microsecond when nobody wants it; to another thread and back, four and more.
constexpr std::chrono::microseconds kSwitches{3};

}  // namespace

Backoff::Backoff(int spins) : spins_(waits_politely ? kPoliteSpin : spins) {}

void Backoff::WaitPolitely(bool politely) { waits_politely = politely; }

bool Backoff::polite() { return waits_politely; }

void Backoff::Pause() {
  if (++pauses_ < spins_) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  } else if (pauses_ < spins_ + kYields) {
    const auto start = std::chrono::steady_clock::now();
    sched_yield();
    core_was_wanted_ = core_was_wanted_ || std::chrono::steady_clock::now() - start > kSwitches;
  } else {
    constexpr long kShortestNanos = 20'000;
    constexpr long kLongestNanos = 500'000;
    const timespec nap = {0, std::min(kShortestNanos * (pauses_ - spins_ - kYields + 1), kLongestNanos)};
    nanosleep(&nap, nullptr);
    pauses_ = std::min(pauses_, spins_ + 2 * kYields);
  }
}

}  // namespace distill
