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
  // What is waited for needs this core, or may.
  static constexpr int kShortSpin = 256;  // a few microseconds
  // Those waited for have cores of their own: no system call while they take no longer than about a millisecond.
  static constexpr int kLongSpin = 1 << 15;

  explicit Backoff(int spins = kShortSpin);

  void Pause();
  // True once waiting has reached its sleeping phase, where a look at clocks and peers costs nothing that matters; and
  // now and then before, so that a deadline of zero passes too.
  bool slow() const { return pauses_ >= spins_ + kYields || pauses_ % kShortSpin == kShortSpin - 1; }

  // How often the core was given away.
  int yields() const { return pauses_ < spins_ ? 0 : pauses_ - spins_ + 1; }
  // True once somebody took it for a while.
  bool core_was_wanted() const { return core_was_wanted_; }

  // Threads that wait beside others which compute on the same core give it away at once. Of the calling thread.
  static void WaitPolitely(bool politely = true);
  static bool polite();

 private:
  static constexpr int kPoliteSpin = 16;
  static constexpr int kYields = 4096;  // about a millisecond

  int spins_;
  int pauses_ = 0;
  bool core_was_wanted_ = false;
};

}  // namespace distill
