// How a rank fills the slots that other cores read. Where these cores share a cache, ordinary stores are the fastest
// way. Where they do not (another die, another socket), each store has to take its line back from the core that read it
// last; stores past the caches, after which that core reads from memory, are two to three times as fast. A virtual
// machine's cores go from one to the other while a program runs, so a rank measures: it writes some pieces either way,
// first of all and again after every so many, and keeps to what was faster.
//
// Ranks need not choose alike, and results do not depend on it.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "libdistill/comm/reduce.h"

namespace distill {

class SlotStores {
 public:
  // `write` puts a piece of `bytes` bytes there, in the way that it is told; its time counts.
  void Write(int64_t bytes, absl::FunctionRef<void(Stores)> write);
  // What Write does with a piece that took so long.
  void Took(int64_t bytes, absl::Duration time);
  // How to put other things there.
  Stores stores() const { return stores_; }

  // Shorter pieces tell nothing and do not count.
  static constexpr int64_t kShortestBytes = 4 << 10;
  // Of so many pieces kTried are written one way, then as many the other way. The first kSettled of either find the
  // slots as the other way has left them, and their time does not count.
  static constexpr int kPeriod = 256;
  static constexpr int kTried = 6;
  static constexpr int kSettled = 4;

 private:
  Stores stores_ = Stores::kCached;
  int turn_ = 0;
  // Of a byte at best, either way.
  double cached_seconds_ = std::numeric_limits<double>::infinity();
  double past_caches_seconds_ = std::numeric_limits<double>::infinity();
};

}  // namespace distill
