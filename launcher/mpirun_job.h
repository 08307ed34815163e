// mpirun as a child: it gets signals and is ended with all that it has started when it does not end by itself.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace distill {

struct MpirunJob {
  std::vector<std::string> command;
  int guard_fd = -1;  // RunGuarded's
  absl::Duration notice_grace = absl::Seconds(100);
  absl::Duration termination_grace = absl::Seconds(15);
};

// Returns mpirun's exit code. SIGTERM reaches the ranks as SIGUSR1, since mpirun kills them a second after a SIGTERM of
// its own; SIGUSR1 and SIGUSR2 as they are. SIGINT and SIGQUIT end mpirun, a second signal ends everything at once.
// InvalidArgument: it cannot be started.
[[nodiscard]] absl::StatusOr<int> RunMpirun(const MpirunJob& job);

// Sets in the environment what makes mpirun work as root, give up a host that does not answer, and notice a cut link.
// What the user has set in the environment or on the command line stays.
void PrepareMpirun(const std::vector<std::string>& command);

}  // namespace distill
