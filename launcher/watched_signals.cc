#include "launcher/watched_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace distill {
namespace {

bool IsIgnored(int number) {
  struct sigaction action = {};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

WatchedSignals::WatchedSignals() {
  signal(SIGCHLD, SIG_DFL);  // ignored, it would take away the children's exit codes
  sigaction(SIGPIPE, nullptr, &pipe_before_);
  signal(SIGPIPE, SIG_IGN);
  sigset_t watched;
  sigemptyset(&watched);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    if (!IsIgnored(number)) sigaddset(&watched, number);
  }
  sigprocmask(SIG_BLOCK, &watched, &before_);
  fd_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
}

WatchedSignals::~WatchedSignals() {
  close(fd_);
  Restore();
}

void WatchedSignals::Restore() const {
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> WatchedSignals::Next() const {
  signalfd_siginfo info;
  if (read(fd_, &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace distill
