// Starting and ending MPI, which a process may do once. MPI's calls have no deadline: libdistill starts non-blocking
// ones and tests them.
#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libdistill/core/deadline.h"
#include "libdistill/world/world.h"

namespace distill {

// Initialises MPI unless somebody has, and sees to it that what was initialised here is finalised when the process
// exits. InvalidArgument: the process was not started by mpirun, or MPI numbers the ranks differently. Blocks until all
// ranks have come; MPI cannot be called off while it starts, so past the deadline this prints why and ends the process.
[[nodiscard]] absl::Status StartMpi(const World& world, const Deadline& deadline);

// Makes one call of MPI's that does not block: one at a time, and none once AbandonMpi has returned, only its error.
[[nodiscard]] absl::Status CallMpi(const char* what, absl::FunctionRef<int()> call);

// After an operation that has not ended, because of `why`. MPI cannot call it off, and whatever call comes next, for
// any communicator, may let it read and write buffers that are the caller's again: so none comes in this process, which
// also exits without finalising. `own`: what else the operation may write to, kept as long as the process. From any
// thread.
void AbandonMpi(const absl::Status& why, std::shared_ptr<void> own);

// "what: MPI's text for the code".
[[nodiscard]] absl::Status MpiError(const char* what, int code);

}  // namespace distill
