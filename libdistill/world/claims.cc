#include "libdistill/world/claims.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libdistill/world/slurm.h"

namespace distill {
namespace {

struct Names {
  const char* launcher;
  const char* rank;
  const char* world_size;
  const char* unset;
};

constexpr Names kNames[] = {
    {"distillrun", "DISTILL_RANK", "DISTILL_WORLD_SIZE",
     "DISTILL_RANK DISTILL_WORLD_SIZE DISTILL_LOCAL_RANK DISTILL_LOCAL_SIZE DISTILL_RENDEZVOUS"},
    {"mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"torchrun", "RANK", "WORLD_SIZE", "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT"},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_PROCID SLURM_STEP_ID"},
    {"pmi", "PMI_RANK", "PMI_SIZE", "PMI_RANK PMI_SIZE"},
};

bool SaysMoreRanks(const Claim& claim) { return claim.world_size > 1 || claim.rank > 0; }

// A launcher within another one, each of which counts what it has started itself.
bool IsNested(const Environment& environment, const std::string& inner, const std::string& outer) {
  if (outer != "slurm") return false;
  return inner == "mpi" || (inner == "torchrun" && environment.Has("TORCHELASTIC_RUN_ID"));
}

absl::Status RefuseContradiction(const Claim* mine, const Claim& other) {
  if (mine == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(other.text, " says that this process is one rank of ", other.world_size,
                     ", but the MPI that set it is not Open MPI, and this program would train alone: start it with "
                     "distillrun, srun or Open MPI's mpirun, or unset ",
                     other.unset));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "two launchers contradict each other: ", mine->text, " (", mine->launcher, ") and ", other.text, " (",
      other.launcher, "). Start the program with one of them alone, or take away the variables of the other: unset ",
      other.unset, ", or unset ", mine->unset));
}

}  // namespace

std::vector<Claim> ReadClaims(const Environment& environment) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  std::vector<Claim> claims;
  for (const Names& names : kNames) {
    if (names.launcher == std::string("slurm") && !InsideSrunStep(environment)) continue;
    const auto rank = environment.Number(names.rank, 0, kMax);
    const auto world_size = environment.Number(names.world_size, 0, kMax);
    if (!rank.ok() && !world_size.ok()) continue;
    Claim claim = {names.launcher, "", names.unset, rank.value_or(0), world_size.value_or(1)};
    if (rank.ok()) claim.text = absl::StrCat(names.rank, "=", *rank);
    if (world_size.ok()) absl::StrAppend(&claim.text, rank.ok() ? " " : "", names.world_size, "=", *world_size);
    claims.push_back(std::move(claim));
  }
  return claims;
}

absl::Status CheckNoOuterJob(const Environment& environment) {
  for (const Claim& claim : ReadClaims(environment)) {
    if (!SaysMoreRanks(claim)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "this process is a rank of another job already: ", claim.text, " (", claim.launcher,
        "). A job started here would train alone, once for each rank of that job. Either start the program itself "
        "here, without distillrun: it reads these variables. Or, for a job of its own: env -u ",
        absl::StrJoin(absl::StrSplit(claim.unset, ' '), " -u "), " distillrun ..."));
  }
  return absl::OkStatus();
}

absl::Status CheckClaims(const Environment& environment, const std::string& launcher, int64_t rank,
                         int64_t world_size) {
  const std::vector<Claim> claims = ReadClaims(environment);
  const Claim* mine = nullptr;
  for (const Claim& claim : claims) {
    if (claim.launcher == launcher) mine = &claim;
  }
  for (const Claim& claim : claims) {
    if (claim.launcher == launcher || !SaysMoreRanks(claim)) continue;
    if (claim.rank == rank && claim.world_size == world_size) continue;
    if (!IsNested(environment, launcher, claim.launcher)) return RefuseContradiction(mine, claim);
  }
  if (launcher != "alone" || !environment.Has("MASTER_ADDR") || !environment.Has("MASTER_PORT")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("MASTER_ADDR and MASTER_PORT name a meeting place for several ranks, but neither RANK nor "
                   "WORLD_SIZE is set (accelerate launch starts a single process so, though it was asked for more): "
                   "this program would train alone. Start it with distillrun, mpirun, srun or torchrun, or for one "
                   "rank: unset MASTER_ADDR MASTER_PORT"));
}

}  // namespace distill
