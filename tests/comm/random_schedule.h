// A random sequence of calls over several communicators of a job, the same on every rank, each compared with what one
// process computes that knows every rank's inputs.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "libdistill/comm/communicator.h"

namespace distill::testing {

// Internal with the first call whose result is wrong: its number, for the same seed gives the same calls.
absl::Status RunRandomSchedule(Communicator& comm, uint64_t seed, int calls);

}  // namespace distill::testing
