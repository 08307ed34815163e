// A clock of its own, and the fibers that live by it: many ranks' real code in one process and one thread. A fiber runs
// until it waits; when all wait, the clock jumps to the next event. The same program gives the same times on every
// machine and in every run.
//
//   VirtualTime time;
//   time.Spawn([&] { time.Advance(Microseconds(3)); ... });
//   DISTILL_RETURN_IF_ERROR(time.Run());
//
// One thread uses a VirtualTime and all that lives by it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "absl/status/status.h"

namespace distill {

// Of the virtual clock: picoseconds, since a byte takes 2 to 80 of them. Nine million seconds can be counted.
using VirtualTicks = int64_t;
constexpr VirtualTicks Microseconds(double us) { return static_cast<VirtualTicks>(us * 1e6 + 0.5); }
constexpr double ToMicroseconds(VirtualTicks ticks) { return static_cast<double>(ticks) / 1e6; }

class VirtualTime {
 public:
  class Fiber;

  VirtualTime();
  ~VirtualTime();
  VirtualTime(const VirtualTime&) = delete;
  VirtualTime& operator=(const VirtualTime&) = delete;

  VirtualTicks now() const { return now_; }

  // Runs `body` on a stack of its own, from now on, after what is to happen now already. It must not throw.
  void Spawn(std::function<void()> body);
  // Calls `act(on)` at this time, which is not before now, after what is to happen at that time already. It does not
  // wait.
  void At(VirtualTicks when, void (*act)(void* on), void* on);

  // These are for fibers. The one that runs:
  Fiber* current() const { return current_; }
  // Waits until another fiber or an event wakes this one.
  void Wait();
  // The fiber, which waits, continues at this time.
  void WakeAt(VirtualTicks when, Fiber* fiber);
  void Wake(Fiber* fiber) { WakeAt(now_, fiber); }
  // Works or waits for so long.
  void Advance(VirtualTicks ticks);

  // Blocks until all fibers have ended. FailedPrecondition: some wait for ever, and how many.
  [[nodiscard]] absl::Status Run();

 private:
  struct Event {
    VirtualTicks when;
    uint64_t number;
    void (*act)(void*);
    void* on;
    bool operator>(const Event& other) const { return when != other.when ? when > other.when : number > other.number; }
  };
  static void Resume(void* fiber);

  VirtualTicks now_ = 0;
  uint64_t events_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> next_;
  std::deque<std::unique_ptr<Fiber>> fibers_;  // with their stacks, which are used again
  std::vector<Fiber*> idle_;
  Fiber* current_ = nullptr;
  int64_t alive_ = 0;
};

}  // namespace distill
