// Reduce-scatter and all-gather in two levels: each rank has a block, which one lane carries between the hosts.
//
//            host A (ranks 0, 1)                          host B (ranks 2, 3)                 a block is its rank
//   in       0  1  2  3     0  1  2  3                    0  1  2  3     0  1  2  3
//   tile     0  2 | 1  3    0  2 | 1  3                   0  2 | 1  3    0  2 | 1  3          [lane][host][seat]
//   inside   0  2           1  3                          0  2           1  3                 one reduce-scatter
//   across   0              1                             2              3                    each lane's
//
// All-gather goes the other way. A call inside a host moves a tile (lane_blocks.h): the blocks of all lanes for some
// hosts, so that there are as many calls as tiles, h at most for h hosts, however many ranks. Where a host has ranks
// beyond the lanes, so that it cannot scatter to all of them, a tile is a lane's blocks for all hosts, and is reduced
// to that lane: as many calls as lanes. A rank beyond the lanes gets its block from the rank that carries it, one
// message. So for l ranks on a host a segment takes
//   max(h, lanes) calls inside + 1 across + (l - lanes) messages at most
// Where a tile's blocks lie in the user's memory in its own order, together or (over shared memory) a block a lane at
// even distances, they are used there: those for one host, where ranks are numbered host by host or in rounds. Else
// they are gathered by strided copies, a few for a tile and not one for a block; S is read and written once more.
#include "libdistill/comm/buffer_work.h"
#include "libdistill/comm/level_calls.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

enum class Into { kTile, kRanks };

// Blocks of `bytes` each, between a tile and memory in which each rank has `rank_bytes`.
std::vector<Rows> CopiesOf(const std::vector<BlockRun>& runs, int64_t bytes, int64_t rank_bytes, Into into, char* to,
                           const char* from) {
  std::vector<Rows> copies;
  for (const BlockRun& run : runs) {
    const int64_t in_tile = run.place * bytes, tile_pitch = run.place_step * bytes;
    const int64_t of_rank = run.rank * rank_bytes, ranks_pitch = run.rank_step * rank_bytes;
    const bool gathers = into == Into::kTile;
    copies.push_back({.to = to + (gathers ? in_tile : of_rank),
                      .to_pitch = gathers ? tile_pitch : ranks_pitch,
                      .from = from + (gathers ? of_rank : in_tile),
                      .from_pitch = gathers ? ranks_pitch : tile_pitch,
                      .row_bytes = bytes,
                      .rows = run.blocks});
  }
  return copies;
}

}  // namespace

absl::Status LevelCalls::MoveRows(absl::Span<const Rows> rows, Placement placement) const {
  if (placement.on_device) return device_->CopyRows(rows, placement.stream);
  CopyRows(rows);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<BlockTile>> LevelCalls::FitTiles(const CommCall& call, const BlockCut& cut) {
  const int64_t longest = cut.per_segment * SizeOf(call.dtype);
  std::vector<BlockTile> tiles =
      blocks_.Tiles(inside_.world_size(), blocks_.seats() * longest, TileBytes(call.placement.on_device));
  const int64_t wanted = blocks_.BlocksIn(tiles[0]) * longest;  // none is larger than the first
  std::unique_ptr<CommMemory>& memory = ScratchIn(call.placement).tile;
  if (memory != nullptr && memory->bytes() >= wanted) return tiles;
  memory = nullptr;
  DISTILL_ASSIGN_OR_RETURN(memory, BufferWork(DeviceOf(call.placement)).Allocate(wanted));
  return tiles;
}

LevelCalls::TilePlace LevelCalls::PlaceOf(const CommCall& call, const BlockCut& cut, const BlockTile& tile) const {
  TilePlace place;
  place.runs = blocks_.Runs(tile);
  if (tile.lanes != inside_.world_size() || !blocks_.InOrder(tile, place.runs)) return place;
  const BlockRun& run = place.runs[0];
  const bool together = run.blocks == 1 || (run.rank_step == 1 && cut.segments == 1);
  const bool strided = run.blocks == tile.lanes && inside_.takes_strides(call.placement);
  if (!together && !strided) return place;
  place.at = run.rank * call.count;
  if (!together) place.stride = run.rank_step * call.count;
  return place;
}

absl::Status LevelCalls::ReduceTile(const CommCall& call, const BlockCut& cut, int64_t segment, const BlockTile& tile,
                                    char* sums) {
  const int64_t size = SizeOf(call.dtype);
  const int64_t bytes = cut.Length(segment) * size;
  const char* in = call.in() + cut.Begin(segment) * size;
  const TilePlace place = PlaceOf(call, cut, tile);
  if (place.at.has_value()) {
    in += *place.at * size;
  } else {
    char* gathered = ScratchIn(call.placement).tile->data();
    DISTILL_RETURN_IF_ERROR(
        MoveRows(CopiesOf(place.runs, bytes, call.bytes(), Into::kTile, gathered, in), call.placement));
    in = gathered;
  }
  const int64_t of_lane = tile.hosts * blocks_.seats();
  char* out = sums + tile.first_host * blocks_.seats() * bytes;
  const int64_t count = of_lane * cut.Length(segment);
  if (tile.lanes == inside_.world_size()) {
    return inside_.Run({.operation = CommOperation::kReduceScatter,
                        .input = in,
                        .output = out,
                        .count = count,
                        .dtype = call.dtype,
                        .placement = call.placement,
                        .op = Undivided(call.op),
                        .stride = place.stride});
  }
  return inside_.Reduce(in, out, count, call.dtype, Undivided(call.op), tile.first_lane, call.placement);
}

absl::Status LevelCalls::ShowTile(const CommCall& call, const BlockCut& cut, int64_t segment, const BlockTile& tile,
                                  char* got) {
  const int64_t size = SizeOf(call.dtype);
  const int64_t bytes = cut.Length(segment) * size;
  char* out = call.out() + cut.Begin(segment) * size;
  char* shown = ScratchIn(call.placement).tile->data();
  const int64_t count = tile.hosts * blocks_.seats() * cut.Length(segment);
  const TilePlace place = PlaceOf(call, cut, tile);
  if (tile.lanes == inside_.world_size()) {
    if (place.at.has_value()) shown = out + *place.at * size;
    DISTILL_RETURN_IF_ERROR(inside_.Run({.operation = CommOperation::kAllGather,
                                         .input = got + tile.first_host * blocks_.seats() * bytes,
                                         .output = shown,
                                         .count = count,
                                         .dtype = call.dtype,
                                         .placement = call.placement,
                                         .stride = place.stride}));
    if (place.at.has_value()) return absl::OkStatus();
  } else {
    if (local_rank() == tile.first_lane) shown = got;
    DISTILL_RETURN_IF_ERROR(inside_.Broadcast(shown, count, call.dtype, tile.first_lane, call.placement));
  }
  return MoveRows(CopiesOf(place.runs, bytes, call.bytes(), Into::kRanks, out, shown), call.placement);
}

absl::Status LevelCalls::BringToSeats(const CommCall& call, const BlockCut& cut, int64_t segment, char* blocks) {
  const int64_t length = cut.Length(segment);
  const int64_t bytes = length * SizeOf(call.dtype);
  const char* mine = call.in() + cut.Begin(segment) * SizeOf(call.dtype);
  for (const int r : layout_.RanksOn(host())) {
    const int lane = blocks_.LaneOf(r);
    char* seat = blocks + blocks_.SeatOf(r) * bytes;
    if (r == ranks_.rank() && lane == local_rank()) {
      DISTILL_RETURN_IF_ERROR(Move(seat, mine, bytes, call.placement));
    } else if (r == ranks_.rank()) {
      DISTILL_RETURN_IF_ERROR(inside_.Send(mine, length, call.dtype, lane, call.placement));
    } else if (lane == local_rank()) {
      DISTILL_RETURN_IF_ERROR(inside_.Receive(seat, length, call.dtype, layout_.LocalRankOf(r), call.placement));
    }
  }
  return absl::OkStatus();
}

absl::Status LevelCalls::TakeFromSeats(const CommCall& call, const BlockCut& cut, int64_t segment, const char* blocks) {
  const int64_t length = cut.Length(segment);
  const int64_t bytes = length * SizeOf(call.dtype);
  char* mine = call.out() + cut.Begin(segment) * SizeOf(call.dtype);
  for (const int r : layout_.RanksOn(host())) {
    const int lane = blocks_.LaneOf(r);
    const char* seat = blocks + blocks_.SeatOf(r) * bytes;
    if (r == ranks_.rank() && lane == local_rank()) {
      DISTILL_RETURN_IF_ERROR(Move(mine, seat, bytes, call.placement));
    } else if (r == ranks_.rank()) {
      DISTILL_RETURN_IF_ERROR(inside_.Receive(mine, length, call.dtype, lane, call.placement));
    } else if (lane == local_rank()) {
      DISTILL_RETURN_IF_ERROR(inside_.Send(seat, length, call.dtype, layout_.LocalRankOf(r), call.placement));
    }
  }
  return absl::OkStatus();
}

absl::Status LevelCalls::ReduceScatter(const CommCall& call) {
  const int64_t size = SizeOf(call.dtype);
  const int hosts = blocks_.hosts();
  const int64_t seats = blocks_.seats();
  const BlockCut cut(call.count, hosts, seats, size);
  DISTILL_ASSIGN_OR_RETURN(const std::vector<BlockTile> tiles, FitTiles(call, cut));
  SegmentSlots& sums = ScratchIn(call.placement).whole;
  SegmentSlots& results = ScratchIn(call.placement).part;
  const int64_t longest = seats * cut.per_segment * size;  // of a host's blocks
  DISTILL_RETURN_IF_ERROR(sums.Fit(hosts * longest, DeviceOf(call.placement)));
  DISTILL_RETURN_IF_ERROR(results.Fit(longest, DeviceOf(call.placement)));
  const auto before = [&](int64_t k) -> absl::Status {
    for (const BlockTile& tile : tiles) DISTILL_RETURN_IF_ERROR(ReduceTile(call, cut, k, tile, sums.at(k)));
    return absl::OkStatus();
  };
  const auto part = [&](int64_t k) -> LanePart {
    if (lanes_.lane() == nullptr) return {};
    const int64_t bytes = seats * cut.Length(k) * size;
    return {sums.at(k), hosts * bytes, results.at(k), bytes, 0, host() * bytes};
  };
  const auto across = [&](const LaneCall& lane) -> absl::Status {
    const int64_t length = seats * cut.Length(lane.segment);
    DISTILL_RETURN_IF_ERROR(
        lane.comm.ReduceScatter(lane.in, lane.out, length, call.dtype, Undivided(call.op), lane.placement));
    return Divide(call, lane, length);
  };
  const auto after = [&](int64_t k) { return TakeFromSeats(call, cut, k, results.at(k)); };
  return lanes_.Run(cut.segments, hosts * longest, call.placement, {before, part, across, after});
}

absl::Status LevelCalls::AllGather(const CommCall& call) {
  const int64_t size = SizeOf(call.dtype);
  const int hosts = blocks_.hosts();
  const int64_t seats = blocks_.seats();
  const BlockCut cut(call.count, hosts, seats, size);
  DISTILL_ASSIGN_OR_RETURN(const std::vector<BlockTile> tiles, FitTiles(call, cut));
  SegmentSlots& own = ScratchIn(call.placement).part;
  SegmentSlots& got = ScratchIn(call.placement).whole;
  const int64_t longest = seats * cut.per_segment * size;  // of a host's blocks
  DISTILL_RETURN_IF_ERROR(own.Fit(longest, DeviceOf(call.placement)));
  DISTILL_RETURN_IF_ERROR(got.Fit(hosts * longest, DeviceOf(call.placement)));
  const auto before = [&](int64_t k) { return BringToSeats(call, cut, k, own.at(k)); };
  const auto part = [&](int64_t k) -> LanePart {
    if (lanes_.lane() == nullptr) return {};
    const int64_t bytes = seats * cut.Length(k) * size;
    return {own.at(k), bytes, got.at(k), hosts * bytes, host() * bytes, 0};
  };
  const auto across = [&](const LaneCall& lane) {
    return lane.comm.AllGather(lane.in, lane.out, seats * cut.Length(lane.segment), call.dtype, lane.placement);
  };
  const auto after = [&](int64_t k) -> absl::Status {
    for (const BlockTile& tile : tiles) DISTILL_RETURN_IF_ERROR(ShowTile(call, cut, k, tile, got.at(k)));
    return absl::OkStatus();
  };
  return lanes_.Run(cut.segments, hosts * longest, call.placement, {before, part, across, after});
}

}  // namespace distill
