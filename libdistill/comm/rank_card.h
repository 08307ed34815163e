// What a rank says about itself when the ranks meet. Internal to comm/.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "libdistill/comm/preferences.h"

namespace distill {

struct RankCard {
  std::string host;
  std::string host_id;
  std::string build;  // BuildId()
  BackendPreference backend = BackendPreference::kAuto;
  std::string gpu;  // which GPU of its host it computes on (NameGpu); empty: none
  AlgorithmPreference algorithm = AlgorithmPreference::kAuto;  // of its options, or else of its environment
  std::string costs = {};                                      // CostTable::Encode(), on rank 0
  bool debug = false;                                          // wants collectives to be compared

  std::string Encode() const;
  // FailedPrecondition: another version's card.
  [[nodiscard]] static absl::StatusOr<RankCard> Decode(const std::string& bytes);
};

}  // namespace distill
