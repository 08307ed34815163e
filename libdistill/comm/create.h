// Makes the communicator of a job: picks the backend and lets the ranks meet.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/world/world.h"

namespace distill {

struct CommunicatorOptions {
  // auto: alone for one rank, shm when all ranks share a host, fabric otherwise. Or: shm, fabric, mpi, nccl.
  std::string backend = "auto";
  absl::Duration timeout = absl::Seconds(300);
  absl::Duration heartbeat_timeout = absl::Seconds(15);
  // For nccl: which GPU of this host this rank uses.
  int device_index = 0;
};

// Blocks until all ranks have joined or the time-out passed; every rank must call it. InvalidArgument: a backend that
// this build or these hosts cannot use (the message says why). DeadlineExceeded: names the ranks that never came.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Communicator>> CreateCommunicator(const World& world,
                                                                               const CommunicatorOptions& options);

// The communicator of a job of one rank: every collective is a copy. Never fails.
std::unique_ptr<Communicator> CreateAloneCommunicator();

}  // namespace distill
