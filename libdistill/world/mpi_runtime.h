// Starting and ending MPI, which a process may do once. MPI's calls have no deadline: libdistill starts non-blocking
// ones and tests them.
#pragma once

#include "absl/status/status.h"
#include "libdistill/core/deadline.h"
#include "libdistill/world/world.h"

namespace distill {

// Initialises MPI unless somebody has, and sees to it that what was initialised here is finalised when the process
// exits. InvalidArgument: the process was not started by mpirun, or MPI numbers the ranks differently. Blocks until all
// ranks have come; MPI cannot be called off while it starts, so past the deadline this prints why and ends the process.
[[nodiscard]] absl::Status StartMpi(const World& world, const Deadline& deadline);

// After a failed operation: finalising would wait for ranks that never come, so the process exits without.
void AbandonMpi();

// "what: MPI's text for the code".
[[nodiscard]] absl::Status MpiError(const char* what, int code);

}  // namespace distill
