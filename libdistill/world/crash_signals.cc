#include "libdistill/world/crash_signals.h"

#include <dlfcn.h>
#include <signal.h>

#include "absl/strings/match.h"

namespace distill {

void TakeBackCrashSignals() {
  for (const int number : {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGTERM}) {
    struct sigaction action = {};
    if (sigaction(number, nullptr, &action) != 0) continue;
    // Handlers share a union, so this is the address of either kind; SIG_DFL and SIG_IGN lie in no library.
    Dl_info place = {};
    if (dladdr(reinterpret_cast<void*>(action.sa_sigaction), &place) == 0 || place.dli_fname == nullptr) continue;
    if (absl::StrContains(place.dli_fname, "libinfinipath")) signal(number, SIG_DFL);
  }
}

}  // namespace distill
