// How a star carries which ranks are busy: each tells rank 0 when it begins and ends, and rank 0 tells all. Used under
// the lock of the star that it is a part of.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "libdistill/world/busy_ranks.h"
#include "libdistill/world/star_peer.h"
#include "libdistill/world/world.h"

namespace distill {

class BusyWatch {
 public:
  // All must outlive it.
  BusyWatch(const World& world, std::shared_ptr<BusyRanks> ranks, std::list<StarPeer>& peers)
      : world_(world), ranks_(std::move(ranks)), peers_(peers) {}

  BusyRanks& ranks() const { return *ranks_; }
  // What a peer said.
  void Take(StarPeer& peer, const std::string& payload);
  // What the peers are to be told now, or null. Rank 0 says at once whether anybody is busy, and who else at the
  // next beat: one frame for many ranks that begin together.
  SharedMessage News(bool at_beat);
  // On rank 0, now and then for a phase that lasts: "rank 1 on host-b is saving a checkpoint, 40s"; else "".
  std::string TextToShow();

 private:
  // The first few of those that have most time left.
  std::vector<BusyRank> Collect(bool at_beat);

  const World& world_;
  const std::shared_ptr<BusyRanks> ranks_;
  std::list<StarPeer>& peers_;
  std::vector<BusyRank> busy_;                         // as last collected, or heard from rank 0
  std::vector<std::pair<std::string, int64_t>> told_;  // by name and phase
  absl::Duration shown_at_;
};

}  // namespace distill
