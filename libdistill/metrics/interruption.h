// What a run says when SIGINT (Ctrl-C) or SIGTERM ends it: how far it came, and how to resume. Rank 0 keeps one.
//
//   Interruption interruption;
//   while (...) interruption.WillSay(absl::StrCat("interrupted after step ", step));
//
// The signal then ends the process as it does without: at once, by its default action. The first process of a container
// (PID 1), which that action would not end, exits with 128 + the signal's number. Where a program has a handler of its
// own, or ignores the signal, nothing is changed.
#pragma once

#include <string>

namespace distill {

class Interruption {
 public:
  // Handles both signals. A process has one at a time: a second one does nothing.
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // One line for stderr, without its end; cut after 4 KiB. Cheap enough for every step; from one thread at a time.
  void WillSay(const std::string& text);

 private:
  bool is_first_;
};

}  // namespace distill
