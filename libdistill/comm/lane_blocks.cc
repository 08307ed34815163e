#include "libdistill/comm/lane_blocks.h"

#include <algorithm>

#include "libdistill/comm/fabric_scratch.h"
#include "libdistill/comm/lane_cut.h"
#include "libdistill/comm/lane_pipeline.h"

namespace distill {
namespace {

// Continues the last run, or begins another.
void Append(std::vector<BlockRun>& runs, int64_t rank, int64_t place) {
  if (!runs.empty()) {
    BlockRun& last = runs.back();
    if (last.blocks == 1) {
      last.rank_step = rank - last.rank;
      last.place_step = place - last.place;
    }
    const bool follows = last.rank_step > 0 && last.place_step > 0 &&
                         rank == last.rank + last.blocks * last.rank_step &&
                         place == last.place + last.blocks * last.place_step;
    if (follows) {
      ++last.blocks;
      return;
    }
    if (last.blocks == 1) last.rank_step = last.place_step = 1;
  }
  runs.push_back({.rank = rank, .place = place, .blocks = 1});
}

// The hosts of a tile, of which each has `host_bytes` for each lane.
int HostsOfTile(int hosts, int lanes, int64_t host_bytes, int64_t tile_bytes) {
  return static_cast<int>(std::clamp<int64_t>(tile_bytes / (lanes * host_bytes), 1, hosts));
}

}  // namespace

int64_t BlockScratchBytes(int hosts, int ranks_per_host, int64_t count, int64_t element_bytes, bool on_device) {
  const BlockCut cut(count, hosts, /*seats=*/1, element_bytes);
  const int64_t part = cut.per_segment * element_bytes;
  const int64_t tile = HostsOfTile(hosts, ranks_per_host, part, TileBytes(on_device)) * ranks_per_host * part;
  return SlotsBytes(hosts * part) + SlotsBytes(part) + tile + (on_device ? StageBytes(hosts * part) : 0);
}

int64_t LaneScratchBytes(int hosts, int ranks_per_host, int64_t reduced, int64_t block, int64_t element_bytes) {
  int64_t bytes = 0, slot = 0;  // of the lane's calls
  if (block > 0) {
    bytes = BlockScratchBytes(hosts, ranks_per_host, block, element_bytes, /*on_device=*/true);
    slot = hosts * BlockCut(block, hosts, /*seats=*/1, element_bytes).per_segment * element_bytes;
    bytes -= StageBytes(slot);
  }
  if (reduced > 0) {
    slot = std::max(slot, LaneCut(reduced, ranks_per_host, element_bytes, hosts).longest_piece_bytes());
  }
  return bytes + StageBytes(slot) +
         FabricScratchBytes(hosts, kRailsOfLongestWindow, slot, /*scatters=*/block > 0, /*on_device=*/true);
}

LaneBlocks::LaneBlocks(const HostLayout* layout)
    : layout_(*layout), lanes_(layout_.fewest()), seats_((layout_.most() + lanes_ - 1) / lanes_) {}

std::vector<BlockTile> LaneBlocks::Tiles(int ranks_of_host, int64_t host_bytes, int64_t tile_bytes) const {
  std::vector<BlockTile> tiles;
  if (ranks_of_host != lanes_) {
    for (int lane = 0; lane < lanes_; ++lane) tiles.push_back({lane, 1, 0, hosts()});
    return tiles;
  }
  const int at_once = HostsOfTile(hosts(), lanes_, host_bytes, tile_bytes);
  for (int host = 0; host < hosts(); host += at_once) {
    tiles.push_back({0, lanes_, host, std::min(at_once, hosts() - host)});
  }
  return tiles;
}

std::vector<BlockRun> LaneBlocks::RunsOf(const BlockTile& tile, Walk walk) const {
  std::vector<BlockRun> runs;
  const auto add = [&](int host, int lane, int64_t seat) {
    const std::vector<int>& ranks = layout_.RanksOn(tile.first_host + host);
    const size_t local = static_cast<size_t>(seat * lanes_ + tile.first_lane + lane);
    if (local >= ranks.size()) return;
    Append(runs, ranks[local], (static_cast<int64_t>(lane) * tile.hosts + host) * seats_ + seat);
  };
  if (walk == Walk::kByHosts) {
    for (int host = 0; host < tile.hosts; ++host) {
      for (int64_t seat = 0; seat < seats_; ++seat) {
        for (int lane = 0; lane < tile.lanes; ++lane) add(host, lane, seat);
      }
    }
  } else {
    for (int lane = 0; lane < tile.lanes; ++lane) {
      for (int64_t seat = 0; seat < seats_; ++seat) {
        for (int host = 0; host < tile.hosts; ++host) add(host, lane, seat);
      }
    }
  }
  return runs;
}

std::vector<BlockRun> LaneBlocks::Runs(const BlockTile& tile) const {
  std::vector<BlockRun> by_hosts = RunsOf(tile, Walk::kByHosts);
  std::vector<BlockRun> by_lanes = RunsOf(tile, Walk::kByLanes);
  return by_hosts.size() <= by_lanes.size() ? by_hosts : by_lanes;
}

bool LaneBlocks::InOrder(const BlockTile& tile, const std::vector<BlockRun>& runs) const {
  return runs.size() == 1 && runs[0].blocks == BlocksIn(tile) && runs[0].place_step == 1;
}

}  // namespace distill
