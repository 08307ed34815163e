// The signals that a launcher takes by reading them, instead of by its default action.
#pragma once

#include <signal.h>

#include <optional>

#include "absl/time/time.h"

namespace distill {

// A batch system may signal each process of a job: distillrun then has SIGTERM twice, once from its guard. Within this
// time it is the same one.
inline constexpr absl::Duration kSameNotice = absl::Seconds(1);

class WatchedSignals {
 public:
  // From here on SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 wait to be read. Those that were
  // ignored when this process started (nohup, a script's background job) stay so.
  WatchedSignals();
  // As it was before.
  ~WatchedSignals();
  WatchedSignals(const WatchedSignals&) = delete;
  WatchedSignals& operator=(const WatchedSignals&) = delete;

  // Readable when a signal waits.
  int fd() const { return fd_; }
  // The next one; never blocks.
  std::optional<int> Next() const;
  // In a child, before it becomes another program: what that program is to find.
  void Restore() const;

 private:
  sigset_t before_;
  struct sigaction pipe_before_ = {};
  int fd_;
};

}  // namespace distill
