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
};

// Starts the ranks, waits for all, and returns the job's exit code: 0, that of the first rank that failed, or
// 128 + the signal that ended it. SIGINT, SIGTERM and SIGHUP to this process end the ranks and what they have started.
// No rank outlives this process. Input goes to rank 0, but from a terminal to none.
// InvalidArgument: the program cannot be started.
[[nodiscard]] absl::StatusOr<int> RunLocalJob(const LocalJob& job);

// 32 random bytes in hexadecimal: what a job's ranks prove to one another.
std::string MakeJobSecret();

}  // namespace distill
