#include "libdistill/comm/rank_card.h"

#include <vector>

#include "libdistill/world/framing.h"

namespace distill {

std::string RankCard::Encode() const {
  return PackStrings({host, host_id, build, backend, gpu, algorithm, costs, debug ? "debug" : ""});
}

absl::StatusOr<RankCard> RankCard::Decode(const std::string& bytes) {
  const absl::StatusOr<std::vector<std::string>> fields = UnpackStrings(bytes);
  if (!fields.ok() || fields->size() != 8)
    return absl::FailedPreconditionError("it runs another version of libdistill");
  return RankCard{(*fields)[0], (*fields)[1], (*fields)[2], (*fields)[3],
                  (*fields)[4], (*fields)[5], (*fields)[6], !(*fields)[7].empty()};
}

}  // namespace distill
