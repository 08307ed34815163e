// The processes below one: what a rank has started, by whatever script and in whatever session.
#pragma once

#include <sys/types.h>

#include <vector>

#include "absl/time/time.h"

namespace distill {

// All that live, parents first, without `root`. A process whose parent has ended belongs to the next subreaper above it
// (prctl PR_SET_CHILD_SUBREAPER), here the launcher.
std::vector<pid_t> DescendantsOf(pid_t root);

// Those of `root` and its descendants that have a handler for the signal.
std::vector<pid_t> WhoCatches(pid_t root, int signal);

// Ends all descendants of this process with SIGKILL and waits until none is left, at most `limit`.
void KillDescendants(absl::Duration limit);

}  // namespace distill
