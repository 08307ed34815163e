// The exchange over TCP: a star around rank 0, which listens at world.rendezvous.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "libdistill/world/rendezvous.h"

namespace distill {

[[nodiscard]] absl::StatusOr<std::unique_ptr<Rendezvous>> CreateTcpRendezvous(const World& world,
                                                                              const Deadline& deadline);

}  // namespace distill
