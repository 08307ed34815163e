// Jobs over several hosts are started by what the cluster has: srun inside a Slurm allocation, else mpirun.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "launcher/options.h"

namespace distill {

// Whether this job is for another launcher: it names other hosts, spans several Slurm nodes, or has an option of
// mpirun.
bool NeedsHandOver(const LaunchOptions& options);

// Whether srun starts it: it needs no guard.
bool IsForSrun(const LaunchOptions& options);

// The command line that the job is handed over with. `arguments` are those of distillrun.
std::vector<std::string> HandOverCommand(const LaunchOptions& options, absl::Span<const std::string> arguments);

// Runs mpirun and returns its exit code, or becomes srun, which passes signals on itself. `guard_fd`: RunGuarded's.
// InvalidArgument: the command cannot be started.
[[nodiscard]] absl::StatusOr<int> HandOver(const LaunchOptions& options, absl::Span<const std::string> arguments,
                                           int guard_fd);

}  // namespace distill
