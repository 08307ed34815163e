#include "libdistill/world/world.h"

#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/claims.h"
#include "libdistill/world/environment.h"
#include "libdistill/world/host_id.h"
#include "libdistill/world/slurm.h"
#include "libdistill/world/socket.h"

namespace distill {
namespace {

constexpr int64_t kMaxRanks = 1 << 20;
constexpr int64_t kMaxPort = 65535;

struct Names {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_size;
};

// All four must be there: the launchers that use this set all of them.
absl::Status ReadFour(const Environment& environment, const Names& names, World& world) {
  DISTILL_ASSIGN_OR_RETURN(world.world_size, environment.Number(names.world_size, 1, kMaxRanks));
  DISTILL_ASSIGN_OR_RETURN(world.rank, environment.Number(names.rank, 0, world.world_size - 1));
  DISTILL_ASSIGN_OR_RETURN(world.local_size, environment.Number(names.local_size, 1, world.world_size));
  DISTILL_ASSIGN_OR_RETURN(world.local_rank, environment.Number(names.local_rank, 0, world.local_size - 1));
  return absl::OkStatus();
}

// torchrun sets all of it; a Kubernetes operator that starts one process a pod sets RANK and WORLD_SIZE alone.
absl::Status ReadTorchrun(const Environment& environment, World& world) {
  DISTILL_ASSIGN_OR_RETURN(world.world_size, environment.Number("WORLD_SIZE", 1, kMaxRanks));
  DISTILL_ASSIGN_OR_RETURN(world.rank, environment.Number("RANK", 0, world.world_size - 1));
  DISTILL_ASSIGN_OR_RETURN(world.local_rank, environment.NumberOr("LOCAL_RANK", 0, 0, world.rank));
  const std::optional<std::string> master = environment.Text("MASTER_ADDR");
  const int64_t at_least = master && IsLoopback(*master) ? world.world_size : world.local_rank + 1;
  DISTILL_ASSIGN_OR_RETURN(world.local_size,
                           environment.NumberOr("LOCAL_WORLD_SIZE", at_least, world.local_rank + 1, world.world_size));
  return absl::OkStatus();
}

absl::Status ReadSlurm(const Environment& environment, World& world) {
  DISTILL_ASSIGN_OR_RETURN(world.world_size, environment.Number("SLURM_NTASKS", 1, kMaxRanks));
  DISTILL_ASSIGN_OR_RETURN(world.rank, environment.Number("SLURM_PROCID", 0, world.world_size - 1));
  DISTILL_ASSIGN_OR_RETURN(world.local_rank, environment.Number("SLURM_LOCALID", 0, world.rank));
  world.local_size = world.local_rank + 1;
  if (const auto tasks = environment.Text("SLURM_STEP_TASKS_PER_NODE")) {
    DISTILL_ASSIGN_OR_RETURN(const int64_t node, environment.NumberOr("SLURM_NODEID", 0, 0, kMaxRanks));
    DISTILL_ASSIGN_OR_RETURN(world.local_size, TasksOnNode(*tasks, node));
  }
  if (world.local_size <= world.local_rank || world.local_size > world.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("SLURM_STEP_TASKS_PER_NODE gives this node ", world.local_size,
                                                   " tasks, but SLURM_LOCALID is ", world.local_rank, " of ",
                                                   world.world_size, " tasks (SLURM_NTASKS)"));
  }
  return absl::OkStatus();
}

// Rank, world size, local rank and size: from the first launcher that left its variables.
absl::Status ReadPlace(const Environment& environment, World& world) {
  if (environment.Has("DISTILL_RANK") || environment.Has("DISTILL_WORLD_SIZE")) {
    world.launcher = "distillrun";
    return ReadFour(environment, {"DISTILL_RANK", "DISTILL_WORLD_SIZE", "DISTILL_LOCAL_RANK", "DISTILL_LOCAL_SIZE"},
                    world);
  }
  if (environment.Has("OMPI_COMM_WORLD_RANK") || environment.Has("OMPI_COMM_WORLD_SIZE")) {
    world.launcher = "mpi";
    return ReadFour(
        environment,
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        world);
  }
  if (environment.Has("RANK") || environment.Has("WORLD_SIZE")) {
    world.launcher = "torchrun";
    return ReadTorchrun(environment, world);
  }
  if (InsideSrunStep(environment)) {
    world.launcher = "slurm";
    return ReadSlurm(environment, world);
  }
  world.launcher = "alone";
  return absl::OkStatus();
}

// HOST:PORT where rank 0 listens.
absl::StatusOr<std::string> ReadMeetingPlace(const Environment& environment, const World& world) {
  if (const auto place = environment.Text("DISTILL_RENDEZVOUS")) return *place;
  if (const auto master = environment.Text("MASTER_ADDR")) {
    // torchrun's own store listens on MASTER_PORT itself.
    DISTILL_ASSIGN_OR_RETURN(const int64_t port, environment.Number("MASTER_PORT", 1, kMaxPort - 1));
    return absl::StrCat(master->find(':') == std::string::npos ? *master : absl::StrCat("[", *master, "]"), ":",
                        port + 1);
  }
  if (world.launcher == "slurm") {
    const auto nodes = environment.Text("SLURM_STEP_NODELIST");
    if (!nodes) return absl::InvalidArgumentError("the environment variable SLURM_STEP_NODELIST is missing");
    DISTILL_ASSIGN_OR_RETURN(const std::string host, FirstHostOfNodeList(*nodes));
    const int64_t max = std::numeric_limits<int64_t>::max();
    DISTILL_ASSIGN_OR_RETURN(const int64_t job, environment.NumberOr("SLURM_JOB_ID", 0, 0, max));
    DISTILL_ASSIGN_OR_RETURN(const int64_t step, environment.Number("SLURM_STEP_ID", 0, max));
    return absl::StrCat(host, ":", RendezvousPortOfStep(job, step));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a job of ", world.world_size,
                   " ranks needs a place to meet: set DISTILL_RENDEZVOUS to HOST:PORT of rank 0, or MASTER_ADDR and "
                   "MASTER_PORT, or start it with distillrun or mpirun"));
}

absl::StatusOr<std::string> ReadSecret(const Environment& environment) {
  if (const auto secret = environment.Text("DISTILL_JOB_SECRET")) return *secret;
  const auto path = environment.Text("DISTILL_JOB_SECRET_FILE");
  if (!path) return std::string();
  std::ifstream file(*path, std::ios::binary);
  std::string secret((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  secret = std::string(absl::StripTrailingAsciiWhitespace(secret));
  if (!file || secret.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("DISTILL_JOB_SECRET_FILE names ", *path, ", which ", file ? "is empty" : "cannot be read"));
  }
  return secret;
}

}  // namespace

absl::StatusOr<World> ReadWorld(const std::function<const char*(const char*)>& getenv) {
  const Environment environment(getenv);
  World world;
  DISTILL_RETURN_IF_ERROR(ReadPlace(environment, world));
  DISTILL_RETURN_IF_ERROR(CheckClaims(environment, world.launcher, world.rank, world.world_size));
  world.host = HostName();
  world.host_id = environment.Text("DISTILL_HOST_ID").value_or(HostId());
  if (world.world_size == 1 || world.launcher == "mpi") return world;
  DISTILL_ASSIGN_OR_RETURN(world.rendezvous, ReadMeetingPlace(environment, world));
  DISTILL_ASSIGN_OR_RETURN(world.job_secret, ReadSecret(environment));
  if (world.job_secret.empty() && world.local_size < world.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("a job of ", world.world_size, " ranks over several hosts (", world.local_size,
                     " of them here) needs a secret that keeps strangers out: set DISTILL_JOB_SECRET or "
                     "DISTILL_JOB_SECRET_FILE to the same random text on every rank"));
  }
  return world;
}

absl::StatusOr<World> ReadWorld() {
  return ReadWorld([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace distill
