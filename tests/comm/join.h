// How the ranks of a test on this host join; over the fabric by way of loopback.
#pragma once

#include <cstdlib>
#include <memory>

#include "absl/status/statusor.h"
#include "libdistill/comm/create.h"

namespace distill::testing {

inline absl::StatusOr<std::unique_ptr<Communicator>> Join(const World& world, const CommunicatorOptions& options) {
  setenv("FI_TCP_IFACE", "lo", 1);
  return CreateCommunicator(world, options);
}

}  // namespace distill::testing
