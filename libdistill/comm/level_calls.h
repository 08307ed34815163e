// The collectives in two levels: see level_calls.cc for what moves where, level_blocks.cc for reduce-scatter and
// all-gather. Internal to comm/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libdistill/comm/backend.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/device_memory.h"
#include "libdistill/comm/host_layout.h"
#include "libdistill/comm/lane_blocks.h"
#include "libdistill/comm/lane_cut.h"
#include "libdistill/comm/lane_pipeline.h"
#include "libdistill/comm/rows.h"

namespace distill {

class LevelCalls {
 public:
  // What is pointed at outlives this: all ranks, the ranks of this host by their local ranks, and the lane. `device`:
  // null without GPUs.
  LevelCalls(const HostLayout* layout, const Communicator* ranks, CommBackend* inside, LanePipeline* lanes,
             std::shared_ptr<DeviceMemory> device)
      : layout_(*layout), ranks_(*ranks), inside_(*inside), lanes_(*lanes), device_(std::move(device)) {}

  // Any collective but all-to-all.
  [[nodiscard]] absl::Status Run(const CommCall& call);

 private:
  absl::Status AllReduce(const CommCall& call);
  absl::Status Reduce(const CommCall& call);
  absl::Status ReduceScatter(const CommCall& call);
  absl::Status Broadcast(const CommCall& call);
  absl::Status AllGather(const CommCall& call);
  absl::Status Meet(const CommCall& call);

  int host() const { return layout_.HostOf(ranks_.rank()); }
  int local_rank() const { return layout_.LocalRankOf(ranks_.rank()); }
  // Whether this rank carries a lane in a call that uses so many.
  bool Carries(int lanes) const { return lanes_.lane() != nullptr && local_rank() < lanes; }

  // Reduces a segment inside the host, piece by piece: `piece` is where this rank's own goes, if it has a lane in this
  // call. Does not divide.
  absl::Status ReduceToLanes(const CommCall& call, const LaneCut& cut, int64_t segment, char* piece);
  // Every rank of the host gets all pieces of the segment, which lie in the output on the ranks of their lanes.
  absl::Status SpreadFromLanes(const CommCall& call, const LaneCut& cut, int64_t segment);
  // The root, on this host, gets all pieces of the segment; `piece` is this rank's own.
  absl::Status CollectAtRoot(const CommCall& call, const LaneCut& cut, int64_t segment, const char* piece);
  // What is divided is divided at the end, once.
  static ReduceOp Undivided(ReduceOp op) { return op == ReduceOp::kAverage ? ReduceOp::kSum : op; }
  // An average's one division, of the lane's sums over all ranks.
  absl::Status Divide(const CommCall& call, const LaneCall& lane, int64_t count) const;
  // Of memory on this rank, without overlap.
  absl::Status Move(void* to, const void* from, int64_t bytes, Placement placement) const;
  // The same of rows that lie apart.
  absl::Status MoveRows(absl::Span<const Rows> rows, Placement placement) const;

  // Of a reduce-scatter or an all-gather, whose blocks go with ranks, not with lanes. The tiles of each segment, and
  // memory for the longest of them.
  absl::StatusOr<std::vector<BlockTile>> FitTiles(const CommCall& call, const BlockCut& cut);
  // Where the blocks of a tile lie in the user's memory.
  struct TilePlace {
    // Elements from its begin, where the call inside can use them there; between the begins of two lanes' blocks.
    std::optional<int64_t> at;
    int64_t stride = 0;
    std::vector<BlockRun> runs;
  };
  TilePlace PlaceOf(const CommCall& call, const BlockCut& cut, const BlockTile& tile) const;
  // Reduces a tile inside the host: `sums` gets this rank's lane's blocks for all hosts, tile after tile.
  absl::Status ReduceTile(const CommCall& call, const BlockCut& cut, int64_t segment, const BlockTile& tile,
                          char* sums);
  // All ranks of the host get a tile's blocks, which their lanes have: this rank's in `got`, for all hosts.
  absl::Status ShowTile(const CommCall& call, const BlockCut& cut, int64_t segment, const BlockTile& tile, char* got);
  // Ranks beyond the lanes give their blocks to the ranks that carry them, which have room for them in `blocks`, and
  // get theirs from there.
  absl::Status BringToSeats(const CommCall& call, const BlockCut& cut, int64_t segment, char* blocks);
  absl::Status TakeFromSeats(const CommCall& call, const BlockCut& cut, int64_t segment, const char* blocks);

  struct Scratch {
    SegmentSlots whole;  // a lane's segment
    SegmentSlots part;   // one host's blocks of it
    std::unique_ptr<CommMemory> tile;
  };
  Scratch& ScratchIn(Placement placement) { return placement.on_device ? device_scratch_ : host_scratch_; }
  std::shared_ptr<DeviceMemory> DeviceOf(Placement placement) const { return placement.on_device ? device_ : nullptr; }

  const HostLayout& layout_;
  const int lane_count_ = layout_.fewest();
  const LaneBlocks blocks_{&layout_};
  const Communicator& ranks_;
  CommBackend& inside_;
  LanePipeline& lanes_;
  const std::shared_ptr<DeviceMemory> device_;
  Scratch host_scratch_, device_scratch_;
};

}  // namespace distill
