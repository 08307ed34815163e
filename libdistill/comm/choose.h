// Which backend a job's ranks use: a pure function of what all of them said about themselves. Internal to comm/.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

// What a rank tells the others when they meet.
struct RankCard {
  std::string host;
  std::string host_id;
  std::string build;               // VersionLine()
  std::string backend;             // what its options ask for
  std::string gpu;                 // which GPU of its host it computes on (NameGpu); empty: none
  std::string algorithm = "auto";  // what its options and environment ask for
  std::string costs = {};          // CostTable::Encode(), on rank 0
  bool debug = false;              // wants collectives to be compared

  std::string Encode() const;
  // FailedPrecondition: another version's card.
  [[nodiscard]] static absl::StatusOr<RankCard> Decode(const std::string& bytes);
};

bool ShareOneHost(const std::vector<RankCard>& cards);

// "shm", "fabric", "mpi", "nccl", or in two levels "shm+fabric" or "nccl+fabric". auto: nccl when every rank computes
// on a GPU of its own on one host and this build has NCCL; else shm on one host; between hosts two levels when some
// host has several ranks, else fabric. FailedPrecondition: ranks of different builds, backends or devices, by name.
// InvalidArgument: a backend that these ranks cannot use, or an algorithm that could have no effect under it.
[[nodiscard]] absl::StatusOr<std::string> ChooseBackend(const std::vector<RankCard>& cards, bool has_nccl);

}  // namespace distill
