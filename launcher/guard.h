// The launcher is two processes: the one that the user sees, and below it the one whose children are the job. Either
// ends the job when the other is gone, with whatever scripts have started and moved away.
#pragma once

#include "absl/functional/function_ref.h"
#include "launcher/watched_signals.h"

namespace distill {

// Calls `job` in a child, which leads a process group of its own and adopts what ranks leave behind; passes signals on
// to it and returns its exit code. `job` gets a descriptor that has hung up when this process is gone: it is then to
// end everything. SIGHUP is not passed on: a job outlives its terminal.
int RunGuarded(absl::FunctionRef<int(int guard_fd)> job);

// Whether it has hung up. Never, for -1.
bool GuardIsGone(int guard_fd);

}  // namespace distill
