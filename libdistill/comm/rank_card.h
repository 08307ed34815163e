// What a rank says about itself when the ranks meet. Internal to comm/.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace distill {

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

}  // namespace distill
