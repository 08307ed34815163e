#include "libdistill/world/busy_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libdistill/world/framing.h"

namespace distill {
namespace {

constexpr size_t kMostTold = 8;
constexpr absl::Duration kShownFirst = absl::Seconds(30);

}  // namespace

void BusyWatch::Take(StarPeer& peer, const std::string& payload) {
  absl::StatusOr<std::vector<BusyRank>> said = DecodeBusy(payload);
  if (!said.ok()) return;
  if (world_.rank == 0) {
    for (BusyRank& rank : *said) rank.name = peer.name;
    peer.busy = *std::move(said);
  } else {
    busy_ = *std::move(said);
  }
}

std::vector<BusyRank> BusyWatch::Collect(bool at_beat) {
  std::vector<BusyRank> all;
  if (std::optional<BusyRank> own = ranks_->Report(at_beat)) {
    own->name = absl::StrCat("rank ", world_.rank, " on ", world_.host);
    all.push_back(*std::move(own));
  }
  if (world_.rank != 0) return all;
  for (const StarPeer& peer : peers_) {
    if (!peer.left) all.insert(all.end(), peer.busy.begin(), peer.busy.end());
  }
  const auto ends = [](const BusyRank& rank) { return rank.since + absl::ToChronoMilliseconds(rank.limit); };
  std::sort(all.begin(), all.end(), [&](const BusyRank& a, const BusyRank& b) { return ends(a) > ends(b); });
  if (all.size() > kMostTold) all.resize(kMostTold);
  return all;
}

SharedMessage BusyWatch::News(bool at_beat) {
  std::vector<BusyRank> mine = Collect(at_beat);
  std::vector<std::pair<std::string, int64_t>> news;
  for (const BusyRank& rank : mine) news.emplace_back(rank.name, rank.phase);
  const bool due = at_beat || world_.rank != 0 || news.empty() != told_.empty();
  SharedMessage message;
  if (due && news != told_) {
    message = MakeMessage(FrameKind::kBusy, 0, EncodeBusy(mine));
    told_ = std::move(news);
  }
  if (world_.rank == 0) {
    busy_ = std::move(mine);
  } else if (peers_.empty() || peers_.front().left) {
    // Nobody tells of them any more; who was over its limit is still why calls fail.
    std::erase_if(busy_, [](const BusyRank& rank) { return !rank.is_overdue(); });
  }
  ranks_->Know(busy_);
  return message;
}

std::string BusyWatch::TextToShow() {
  const auto longest = std::min_element(busy_.begin(), busy_.end(),
                                        [](const BusyRank& a, const BusyRank& b) { return a.since < b.since; });
  if (world_.rank != 0 || longest == busy_.end() || longest->lasted() < kShownFirst) {
    shown_at_ = absl::ZeroDuration();
    return "";
  }
  const absl::Duration lasted = longest->lasted();
  if (lasted < 2 * shown_at_) return "";
  shown_at_ = lasted;
  return absl::StrCat(longest->name, " is ", longest->what, ", ",
                      absl::FormatDuration(absl::Floor(lasted, absl::Seconds(1))));
}

}  // namespace distill
