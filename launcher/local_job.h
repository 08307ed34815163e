// The ranks of a job on this host: started, watched, and ended together.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace distill {

struct LocalJob {
  int ranks = 1;
  std::vector<std::pair<std::string, std::string>> environment;  // for every rank
  std::vector<std::string> program;
  // After a rank has failed the others get this long to notice and say so, then SIGTERM, then SIGKILL.
  absl::Duration failure_grace = absl::Seconds(20);
  absl::Duration termination_grace = absl::Seconds(10);
  // After SIGTERM, where every rank has a handler for it: a checkpoint is committed within 90 s.
  absl::Duration notice_grace = absl::Seconds(100);
  // RunGuarded's; -1: nobody guards this process.
  int guard_fd = -1;
};

// Starts the ranks, waits for all, and returns the job's exit code: 0, that of the first rank that failed,
// kExitCheckpointed when ranks ended so and none failed, or 128 + the signal that ended it. Signals to this process:
// SIGTERM goes to the ranks as it is, and SIGKILL follows it; without a handler of every rank all have it before the
// first acts on it. SIGINT ends all ranks soon; a second of either at once. SIGQUIT, SIGUSR1 and SIGUSR2 go to the
// ranks as they are; SIGHUP does nothing. No rank outlives this process. Input goes to rank 0, but from a terminal to
// none. InvalidArgument: the program cannot be started.
[[nodiscard]] absl::StatusOr<int> RunLocalJob(const LocalJob& job);

}  // namespace distill
