#include "libdistill/core/interruption.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "absl/strings/str_cat.h"

namespace distill {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1};

struct Line {
  std::array<char, 4096> bytes;
  size_t size = 0;
};

// The handler finds them here. A line is written while the other one is shown, and none once a handler has begun: what
// it reads does not change.
std::array<Line, 2> lines;
std::atomic<const Line*> shown = nullptr;
std::atomic<bool> is_ending = false;
std::atomic<bool> is_taken = false;
constexpr int kTerm = 1, kUsr1 = 2;
std::atomic<int> noted = 0;         // which notices came
std::atomic<int64_t> noted_at = 0;  // when the last new one did
// A notice often comes twice, from whoever sends it and from a launcher that passes it on.
constexpr int64_t kSameNoticeNanos = 1'000'000'000;
static_assert(std::atomic<const Line*>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

int64_t NanosNow() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Async-signal-safe. The default action is back before the write: another signal ends one that blocks. The kernel
// spares the first process of a container (PID 1) that action: it leaves with the shell's number for the signal.
void NoteOrEnd(int number) {
  if (number != SIGINT) {
    const int bit = number == SIGTERM ? kTerm : kUsr1;
    const int64_t now = NanosNow();
    if ((noted.load() & bit) == 0) noted_at = now;
    noted |= bit;
    if (now - noted_at.load() < kSameNoticeNanos) return;
  }
  signal(number, SIG_DFL);
  const Line* line = is_ending.exchange(true) ? nullptr : shown.load();
  if (line != nullptr) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line->bytes.data(), line->size);
  }
  // Some tools have signals blocked in handlers.
  sigset_t this_one;
  sigemptyset(&this_one);
  sigaddset(&this_one, number);
  pthread_sigmask(SIG_UNBLOCK, &this_one, nullptr);
  raise(number);
  _exit(128 + number);
}

bool IsHandledBy(int number, void (*handler)(int)) {
  struct sigaction current = {};
  return sigaction(number, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) == 0 &&
         current.sa_handler == handler;
}

void HandleIfDefault(int number) {
  struct sigaction ours = {};
  ours.sa_handler = &NoteOrEnd;
  ours.sa_flags = SA_NODEFER | SA_RESTART;
  if (IsHandledBy(number, SIG_DFL)) sigaction(number, &ours, nullptr);
}

}  // namespace

void Interruption::NoteEarly() { HandleIfDefault(SIGUSR1); }

Interruption::Interruption() : is_first_(!is_taken.exchange(true)) {
  if (!is_first_) return;
  for (const int number : kSignals) HandleIfDefault(number);
}

Interruption::~Interruption() {
  if (!is_first_) return;
  for (const int number : kSignals) {
    if (IsHandledBy(number, &NoteOrEnd)) signal(number, SIG_DFL);
  }
  noted = 0;
  shown = nullptr;
  is_taken = false;
}

const char* Interruption::notice() const {
  const int came = is_first_ ? noted.load() : 0;
  return came == 0 ? nullptr : (came & kTerm) != 0 ? "SIGTERM" : "SIGUSR1";
}

void Interruption::WillSay(const std::string& text) {
  if (!is_first_ || is_ending) return;
  Line& line = lines[shown == &lines[0] ? 1 : 0];
  // On a terminal the progress line is open, and ^C stands in it.
  const std::string whole = absl::StrCat(isatty(STDERR_FILENO) == 1 ? "\n" : "", text.substr(0, 4000), "\n");
  std::copy(whole.begin(), whole.end(), line.bytes.begin());
  line.size = whole.size();
  shown = &line;
}

}  // namespace distill
