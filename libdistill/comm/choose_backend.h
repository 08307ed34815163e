// Which backend a job's ranks use: a pure function of what all of them said about themselves. Internal to comm/.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/comm/preferences.h"

namespace distill {

// What a rank says about itself when the ranks meet.
struct RankCard {
  std::string host;
  std::string host_id;
  std::string build;  // BuildId()
  BackendPreference backend = BackendPreference::kAuto;
  std::string gpu;  // which GPU of its host it computes on (GpuAddress); empty: none
  AlgorithmPreference algorithm = AlgorithmPreference::kAuto;  // of its options, or else of its environment
  std::string costs = {};                                      // CostTable::Encode(), on rank 0, if one was given
  bool debug = false;                                          // wants collectives to be compared
  std::vector<int> cores = {};                                 // that it may run on; empty: not known

  std::string Encode() const;
  // FailedPrecondition: another version's card.
  [[nodiscard]] static absl::StatusOr<RankCard> Decode(const std::string& bytes);
};

bool ShareOneHost(const std::vector<RankCard>& cards);

// The last two in two levels: inside the hosts, and between them.
enum class ChosenBackend { kShm, kFabric, kMpi, kNccl, kShmAndFabric, kNcclAndFabric };

// auto: nccl when every rank computes on a GPU of its own on one host and this build has NCCL; else shm on one host;
// between hosts two levels when some host has several ranks, else fabric. FailedPrecondition: ranks of different
// builds, backends or devices, by name. InvalidArgument: a backend that these ranks cannot use, or an algorithm that
// could have no effect under it.
[[nodiscard]] absl::StatusOr<ChosenBackend> ChooseBackend(const std::vector<RankCard>& cards, bool has_nccl);

}  // namespace distill
