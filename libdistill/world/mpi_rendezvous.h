// The exchange over MPI, for jobs that mpirun started.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "libdistill/world/rendezvous.h"

namespace distill {

[[nodiscard]] absl::StatusOr<std::unique_ptr<Rendezvous>> CreateMpiRendezvous(const World& world,
                                                                              const Deadline& deadline);

}  // namespace distill
