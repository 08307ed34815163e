// How to wait for something that only polling shows: spin a little, then give the core away, then sleep. More ranks
// than cores make progress, and a rank that waits long costs next to nothing.
//
//   for (Backoff backoff; !Done(); backoff.Pause()) {
//     if (backoff.slow() && deadline.Passed()) return deadline.Error("...");
//   }
#pragma once

namespace distill {

class Backoff {
 public:
  void Pause();
  // True once waiting has reached its sleeping phase, where a look at clocks and peers costs nothing that matters; and
  // now and then before, so that a deadline of zero passes too.
  bool slow() const { return pauses_ >= kYields || pauses_ % kSpins == kSpins - 1; }

 private:
  static constexpr int kSpins = 256;    // a few microseconds
  static constexpr int kYields = 4096;  // about a millisecond

  int pauses_ = 0;
};

}  // namespace distill
