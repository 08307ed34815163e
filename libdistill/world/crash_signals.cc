#include "libdistill/world/crash_signals.h"

#include <dlfcn.h>

#include "absl/strings/match.h"

namespace distill {
namespace {

constexpr std::array kCrashSignals = {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGTERM};

bool IsOfInfinipath(int number) {
  struct sigaction action = {};
  if (sigaction(number, nullptr, &action) != 0) return false;
  // Handlers share a union, so this is the address of either kind; SIG_DFL and SIG_IGN lie in no library.
  Dl_info place = {};
  if (dladdr(reinterpret_cast<void*>(action.sa_sigaction), &place) == 0 || place.dli_fname == nullptr) return false;
  return absl::StrContains(place.dli_fname, "libinfinipath");
}

}  // namespace

void TakeBackCrashSignals() {
  for (const int number : kCrashSignals) {
    if (IsOfInfinipath(number)) signal(number, SIG_DFL);
  }
}

KeepCrashSignals::KeepCrashSignals() {
  static_assert(kCrashSignals.size() == kSignals);
  for (size_t i = 0; i < kSignals; ++i) sigaction(kCrashSignals[i], nullptr, &before_[i]);
}

KeepCrashSignals::~KeepCrashSignals() {
  for (size_t i = 0; i < kSignals; ++i) {
    if (IsOfInfinipath(kCrashSignals[i])) sigaction(kCrashSignals[i], &before_[i], nullptr);
  }
}

}  // namespace distill
