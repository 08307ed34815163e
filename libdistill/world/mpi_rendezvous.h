// For jobs that mpirun started: MPI hands out rank 0's addresses and a job secret that rank 0 makes, and is not used
// again: the ranks then meet, and watch one another, over TCP.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "libdistill/world/rendezvous.h"

namespace distill {

[[nodiscard]] absl::StatusOr<std::unique_ptr<Rendezvous>> CreateMpiRendezvous(const World& world,
                                                                              const Deadline& deadline);

}  // namespace distill
