// What Slurm tells the processes of an srun step, in its own notations.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/world/environment.h"

namespace distill {

// Whether this process is a task of an srun step. The batch script and the shell of an interactive salloc run in steps
// of Slurm's own, with the variables of a task: no rank lives in them.
bool InsideSrunStep(const Environment& environment);

// "node[03-05,9],gpu1" -> "node03"; "login" -> "login". InvalidArgument for a list that is cut off or empty.
[[nodiscard]] absl::StatusOr<std::string> FirstHostOfNodeList(const std::string& list);

// Entry `node` of SLURM_STEP_TASKS_PER_NODE, "4(x2),3" -> 4, 4, 3.
[[nodiscard]] absl::StatusOr<int64_t> TasksOnNode(const std::string& tasks_per_node, int64_t node);

// A port that every rank of the step computes alike, below the ephemeral range, so that two steps rarely share one.
int RendezvousPortOfStep(int64_t job, int64_t step);

}  // namespace distill
