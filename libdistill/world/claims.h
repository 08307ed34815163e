// What the launchers of other jobs have left in the environment: each says a rank and a world size.
//
// A job inside a job, or variables of two launchers that differ, would train alone or in a wrong world without a word.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/world/environment.h"

namespace distill {

struct Claim {
  std::string launcher;  // as World::launcher, or "pmi": an MPI that is not Open MPI
  std::string text;      // "RANK=3 WORLD_SIZE=16", as it stands in the environment
  std::string unset;     // the variables that this launcher sets
  int64_t rank = 0;
  int64_t world_size = 1;
};

// Those that are set, in the order of ReadWorld. What is no number counts as not set.
std::vector<Claim> ReadClaims(const Environment& environment);

// For a launcher that is about to start a job of its own. InvalidArgument: this process belongs to a job of more ranks
// already; what to run instead.
[[nodiscard]] absl::Status CheckNoOuterJob(const Environment& environment);

// For a rank that `launcher` has started as `rank` of `world_size`. InvalidArgument: another launcher says otherwise,
// or says that there are more ranks than this one.
[[nodiscard]] absl::Status CheckClaims(const Environment& environment, const std::string& launcher, int64_t rank,
                                       int64_t world_size);

}  // namespace distill
