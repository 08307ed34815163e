#include "libdistill/transport/fabric_rails.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/world/framing.h"

namespace distill {
namespace {

// The rank's further rail on this network, or 0.
size_t RailOn(const FabricCard& card, const std::string& network) {
  for (size_t rail = 1; rail < card.rails.size(); ++rail) {
    if (card.rails[rail].network == network) return rail;
  }
  return 0;
}

// The further rail of every rank on this network; empty where it does not join them.
std::vector<size_t> RailsOn(const std::vector<FabricCard>& cards, const std::string& network) {
  std::vector<size_t> rails;
  std::map<std::string, std::string> hosts;  // by location
  for (const FabricCard& card : cards) {
    const size_t rail = RailOn(card, network);
    if (rail == 0) return {};
    rails.push_back(rail);
    const std::string& location = card.rails[rail].location;
    if (!location.empty() && hosts.emplace(location, card.host).first->second != card.host) return {};
  }
  return rails;
}

}  // namespace

std::string FabricCard::Encode() const {
  std::vector<std::string> fields = {host, absl::StrCat(channel)};
  for (const FabricRail& rail : rails) {
    for (const std::string& field : {rail.network, rail.location, rail.address}) fields.push_back(field);
  }
  return PackStrings(fields);
}

absl::StatusOr<FabricCard> FabricCard::Decode(const std::string& bytes) {
  absl::StatusOr<std::vector<std::string>> fields = UnpackStrings(bytes);
  int channel = 0;
  if (!fields.ok() || fields->size() < 5 || fields->size() % 3 != 2 || !absl::SimpleAtoi((*fields)[1], &channel) ||
      channel < 0 || channel > 255) {
    return absl::FailedPreconditionError("a fabric address that cannot be read: the ranks use different builds");
  }
  FabricCard card = {std::move((*fields)[0]), {}, channel};
  for (size_t i = 2; i < fields->size(); i += 3) {
    card.rails.push_back({std::move((*fields)[i]), std::move((*fields)[i + 1]), std::move((*fields)[i + 2])});
  }
  return card;
}

std::vector<std::vector<size_t>> CommonRails(const std::vector<FabricCard>& cards) {
  std::vector<std::vector<size_t>> used(cards.size(), {0});
  for (size_t rail = 1; rail < cards[0].rails.size(); ++rail) {
    const std::vector<size_t> further = RailsOn(cards, cards[0].rails[rail].network);
    for (size_t rank = 0; rank < further.size(); ++rank) used[rank].push_back(further[rank]);
  }
  return used;
}

absl::Status CheckAddresses(const std::vector<FabricCard>& cards, const std::vector<std::vector<size_t>>& common,
                            size_t self, const std::vector<std::string>& names) {
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    for (size_t rail = 0; rail < common[self].size(); ++rail) {
      const size_t theirs = cards[rank].rails[common[rank][rail]].address.size();
      const size_t own = cards[self].rails[common[self][rail]].address.size();
      if (theirs == own) continue;
      return absl::FailedPreconditionError(absl::StrCat("the fabric address of ", names[rank], " has ", theirs,
                                                        " bytes, this rank's ", own,
                                                        ": the ranks use different fabrics"));
    }
  }
  return absl::OkStatus();
}

}  // namespace distill
