// Which lane carries a rank's block of a reduce-scatter or an all-gather in two levels, and how blocks lie while they
// go through a host. Pure functions of what is the same on every rank. Internal to comm/.
//
//   user's memory, by ranks         [rank 0][rank 1][rank 2][rank 3]     2 hosts x 2 ranks, A: 0 and 1, B: 2 and 3
//   a tile, by lane, host, seat     [lane 0: A, B][lane 1: A, B]    =    [rank 0][rank 2][rank 1][rank 3]
//
// A call inside the host moves one tile: as many bytes for each lane, which lie together.
#pragma once

#include <cstdint>
#include <vector>

#include "libdistill/comm/host_layout.h"

namespace distill {

// A tile of several hosts is no longer than this. In host memory ranks wait for each other after each slot of shared
// memory anyway, and longer tiles leave the caches; on a GPU a call costs the start of a kernel and the wait for it, as
// long as so many bytes take.
constexpr int64_t TileBytes(bool on_device) { return on_device ? 32 << 20 : 256 << 10; }

// Bytes that a rank keeps for reduce-scatters and all-gathers of blocks of `count` elements at most, between hosts of
// as many ranks each: two slots of a lane's segment and of a host's part of it, and a tile; on a GPU the lane's slots.
int64_t BlockScratchBytes(int hosts, int ranks_per_host, int64_t count, int64_t element_bytes, bool on_device);

// Bytes that a rank keeps on a GPU at most for what goes between such hosts: for blocks of `block` elements
// BlockScratchBytes, for all-reduces of `reduced` elements the lane's slots, which are the same, and what the lane's
// own communicator keeps, over however many rails. 0 elements: no such calls. Where the fabric cannot use the GPU's
// memory, slots and communicator are in the host's.
int64_t LaneScratchBytes(int hosts, int ranks_per_host, int64_t reduced, int64_t block, int64_t element_bytes);

// The blocks of some lanes for some hosts, in the order [lane][host][seat].
struct BlockTile {
  int first_lane = 0;
  int lanes = 0;
  int first_host = 0;
  int hosts = 0;
};

// Blocks that are evenly spaced both among the ranks and in a tile: one strided copy. Places and steps are in blocks.
struct BlockRun {
  int64_t rank = 0;
  int64_t rank_step = 1;
  int64_t place = 0;  // in the tile
  int64_t place_step = 1;
  int64_t blocks = 0;
};

class LaneBlocks {
 public:
  // `layout` outlives this.
  explicit LaneBlocks(const HostLayout* layout);

  int lanes() const { return lanes_; }
  int hosts() const { return layout_.hosts(); }
  // A lane carries so many blocks of each host, of which some are empty where a host has fewer ranks than another.
  int64_t seats() const { return seats_; }
  int LaneOf(int rank) const { return layout_.LocalRankOf(rank) % lanes_; }
  int SeatOf(int rank) const { return layout_.LocalRankOf(rank) / lanes_; }

  // The tiles that a host with so many ranks moves, one call inside each. Where every rank has a lane: all lanes, for
  // as many hosts as `tile_bytes` hold, at least one; else one lane for all hosts. So there are at most as many tiles
  // as hosts or lanes, whatever the number of ranks. `host_bytes`: what a lane carries for one host.
  std::vector<BlockTile> Tiles(int ranks_of_host, int64_t host_bytes, int64_t tile_bytes) const;
  int64_t BlocksIn(const BlockTile& tile) const { return tile.lanes * tile.hosts * seats_; }

  // Where a tile's blocks lie among the ranks' ones. As few runs as its hosts or its lanes where ranks are numbered
  // host by host or in rounds over the hosts, at most one for each rank where they are numbered in another way.
  std::vector<BlockRun> Runs(const BlockTile& tile) const;
  // Whether the runs are one, the whole tile in its own order: at even distances, which are one block where it lies
  // together.
  bool InOrder(const BlockTile& tile, const std::vector<BlockRun>& runs) const;

 private:
  enum class Walk { kByHosts, kByLanes };
  std::vector<BlockRun> RunsOf(const BlockTile& tile, Walk walk) const;

  const HostLayout& layout_;
  const int lanes_;
  const int64_t seats_;
};

}  // namespace distill
