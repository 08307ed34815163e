#include "libdistill/comm/rank_card.h"

#include <vector>

#include "libdistill/core/field_text.h"
#include "libdistill/world/framing.h"

namespace distill {

std::string RankCard::Encode() const {
  return PackStrings(
      {host, host_id, build, FieldText(backend), gpu, FieldText(algorithm), costs, debug ? "debug" : ""});
}

absl::StatusOr<RankCard> RankCard::Decode(const std::string& bytes) {
  const absl::StatusOr<std::vector<std::string>> fields = UnpackStrings(bytes);
  RankCard card;
  if (!fields.ok() || fields->size() != 8 || !ParseField((*fields)[3], card.backend) ||
      !ParseField((*fields)[5], card.algorithm)) {
    return absl::FailedPreconditionError("it runs another version of libdistill");
  }
  card.host = (*fields)[0];
  card.host_id = (*fields)[1];
  card.build = (*fields)[2];
  card.gpu = (*fields)[4];
  card.costs = (*fields)[6];
  card.debug = !(*fields)[7].empty();
  return card;
}

}  // namespace distill
