// What a run does when a signal is to end it. SIGINT (Ctrl-C) ends it at once, after a line that says how far it came
// and how to resume. SIGTERM and SIGUSR1, the notices of batch systems, are only noted: the run saves what it has and
// ends by itself; the same signal again, a second or more later, ends it at once, as SIGINT does.
//
//   Interruption interruption;
//   while (!interruption.notice()) interruption.WillSay(absl::StrCat("interrupted after step ", step));
//
// At once means by the signal's default action. The first process of a container (PID 1), which that action would not
// end, exits with 128 + the signal's number. Where a program has a handler of its own, or ignores the signal, nothing
// is changed.
#pragma once

#include <string>

namespace distill {

class Interruption {
 public:
  // Before there is one: SIGUSR1, which would end the process by default, is noted, and the first one finds it.
  static void NoteEarly();

  // Handles the signals. A process has one at a time: a second one does nothing.
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // "SIGTERM" or "SIGUSR1", once one has come; null before.
  const char* notice() const;
  // One line for stderr, without its end; cut after 4 KiB. Cheap enough for every step; from one thread at a time.
  void WillSay(const std::string& text);

 private:
  bool is_first_;
};

}  // namespace distill
