// Crashes belong to the program: a core file or a debugger's, not a vendor library's.
//
// libinfinipath, which libfabric brings along on many systems, takes the signals of crashes, SIGINT and SIGTERM when it
// is loaded, and answers each with a stack trace on stderr and a file in the working directory.
#pragma once

#include <signal.h>

#include <array>
#include <cstddef>

namespace distill {

// For a program that was linked with it: gives those signals their default action back; handlers of anybody else stay.
// Idempotent; not while other threads set handlers.
void TakeBackCrashSignals();

// Around the loading of libraries: at its end the handlers that libinfinipath took are those of before again.
class KeepCrashSignals {
 public:
  KeepCrashSignals();
  ~KeepCrashSignals();
  KeepCrashSignals(const KeepCrashSignals&) = delete;
  KeepCrashSignals& operator=(const KeepCrashSignals&) = delete;

 private:
  static constexpr size_t kSignals = 7;
  std::array<struct sigaction, kSignals> before_ = {};
};

}  // namespace distill
