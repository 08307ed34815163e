// Who is this process: its rank, how many there are, its host, and where the ranks meet.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace distill {

struct World {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_size = 1;
  std::string host;        // host name, for messages
  std::string host_id;     // equal for two ranks exactly when they share a host (world/host_id.h)
  std::string launcher;    // "distillrun", "mpi", "torchrun", "slurm" or "alone": who started this process
  std::string rendezvous;  // "HOST:PORT" where rank 0 listens; empty when MPI carries the meeting, or for one rank
  std::string job_secret;  // shared by the ranks; empty when MPI hands one out, or for one rank; without one the
                           // ranks are on one host, and meet on its loopback whatever `rendezvous` names
};

// Reads the environment, first match wins: distillrun's own variables (DISTILL_RANK, DISTILL_WORLD_SIZE,
// DISTILL_LOCAL_RANK, DISTILL_LOCAL_SIZE), OMPI_COMM_WORLD_*, RANK / WORLD_SIZE / LOCAL_RANK, SLURM_* inside an srun
// step, alone. InvalidArgument names the variable that is missing, no number or out of range, or the two launchers
// whose variables differ (world/claims.h). `getenv` is std::getenv but for tests.
[[nodiscard]] absl::StatusOr<World> ReadWorld(const std::function<const char*(const char*)>& getenv);
[[nodiscard]] absl::StatusOr<World> ReadWorld();

}  // namespace distill
