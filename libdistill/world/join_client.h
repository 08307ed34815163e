// The side of the meeting of every rank but 0.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/core/deadline.h"
#include "libdistill/world/socket.h"
#include "libdistill/world/world.h"

namespace distill {

// Connects to rank 0 at one of the places, however often it takes until the deadline, and proves the job secret both
// ways. world.rendezvous is what messages call the place. The socket is one that rank 0 has accepted as this rank's.
// PermissionDenied: the secrets differ; InvalidArgument: the rank is taken or the world sizes differ; DeadlineExceeded:
// with what the last attempt met.
[[nodiscard]] absl::StatusOr<Socket> JoinRankZero(const World& world, const std::vector<HostPort>& places,
                                                  const Deadline& deadline);

}  // namespace distill
