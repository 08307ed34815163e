// Collectives in two levels: inside each host through memory (or between its GPUs), and across hosts over the fabric.
// Those that go with ranks' blocks, reduce-scatter and all-gather, are in level_blocks.cc.
//
//            host A                 host B
//        rank 0   rank 1        rank 2   rank 3
//          |  \   /  |            |  \   /  |         1. reduce-scatter inside: rank 0 has piece 0, rank 1 piece 1
//          |   \ /   |            |   \ /   |
//          0    X    1            0    X    1
//          |   /.\   |            |   / \   |
//          +----------------------+         |         2. lane 0: all-reduce of piece 0 between ranks 0 and 2,
//                    +----------------------+            lane 1: of piece 1 between ranks 1 and 3, at the same time
//                                                     3. all-gather inside
//
// A lane is one rank of each host: those with the same local rank. There are as many as the host with the fewest ranks
// has; a rank beyond them gives its data inside its host and gets the result there, so that lanes never wait for ranks
// that a host does not have. Every byte crosses between two hosts as often as with one rank a host:
//   time = 2(h-1)/h S / bandwidth of a host's link + 2 S (segment) / bandwidth of memory, for h hosts
// where a flat ring of n ranks moves 2(n-1)/n S over each host's link, and more where its neighbours alternate between
// hosts. The data are cut into segments (lane_cut.h), two under way: while one is on the wire, on the lane's own
// thread, the next is reduced and the last one gathered.
//
// Each host's sums are formed in the order of its ranks, then added by the lane's communicator in the order of its own:
// all ranks end with identical bits, and the same call gives them again. 16-bit types are rounded once inside, and as
// the fabric does across. An average is a sum, divided once by the rank that carries the piece.
#include "libdistill/comm/level_calls.h"

#include <cstring>

#include "libdistill/comm/reduce.h"
#include "libdistill/core/status_macros.h"

namespace distill {
absl::Status LevelCalls::Run(const CommCall& call) {
  constexpr absl::Status (LevelCalls::*kWays[])(const CommCall&) = {
      &LevelCalls::AllReduce, &LevelCalls::ReduceScatter, &LevelCalls::AllGather, &LevelCalls::Broadcast,
      &LevelCalls::Reduce,    /*all-to-all=*/nullptr,     &LevelCalls::Meet};  // in the order of CommOperation
  return (this->*kWays[static_cast<size_t>(call.operation)])(call);
}

absl::Status LevelCalls::Move(void* to, const void* from, int64_t bytes, Placement placement) const {
  if (placement.on_device) return device_->Copy(to, from, bytes, placement.stream);
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status LevelCalls::ReduceToLanes(const CommCall& call, const LaneCut& cut, int64_t segment, char* piece) {
  const ReduceOp op = Undivided(call.op);
  if (cut.lanes != inside_.world_size()) {
    for (int lane = 0; lane < cut.lanes; ++lane) {
      DISTILL_RETURN_IF_ERROR(inside_.Reduce(call.in() + cut.PieceBegin(segment, lane) * cut.size, piece,
                                             cut.PieceLength(segment, lane), call.dtype, op, lane, call.placement));
    }
    return absl::OkStatus();
  }
  const int64_t even = cut.Even(segment);
  const char* begin = call.in() + cut.Begin(segment) * cut.size;
  DISTILL_RETURN_IF_ERROR(inside_.ReduceScatter(begin, piece, even, call.dtype, op, call.placement));
  if (cut.Rest(segment) == 0) return absl::OkStatus();
  return inside_.Reduce(begin + cut.lanes * even * cut.size, piece + even * cut.size, cut.Rest(segment), call.dtype, op,
                        cut.lanes - 1, call.placement);
}

absl::Status LevelCalls::Divide(const CommCall& call, const LaneCall& lane, int64_t count) const {
  if (call.op != ReduceOp::kAverage) return absl::OkStatus();
  const void* sum = lane.out;
  if (lane.placement.on_device) {
    return device_->Reduce(lane.out, &sum, 1, count, call.dtype, call.op, ranks_.world_size());
  }
  distill::Reduce(lane.out, &sum, 1, count, call.dtype, call.op, ranks_.world_size());
  return absl::OkStatus();
}

absl::Status LevelCalls::AllReduce(const CommCall& call) {
  const LaneCut cut(call.count, lane_count_, SizeOf(call.dtype), layout_.hosts());
  const bool carries = Carries(cut.lanes);
  const auto piece = [&](int64_t k) { return call.out() + (carries ? cut.PieceBegin(k, local_rank()) : 0) * cut.size; };
  const auto before = [&](int64_t k) { return ReduceToLanes(call, cut, k, piece(k)); };
  const auto part = [&](int64_t k) -> LanePart {
    if (!carries) return {};
    const int64_t bytes = cut.PieceLength(k, local_rank()) * cut.size;
    return {piece(k), bytes, piece(k), bytes};
  };
  const auto across = [&](const LaneCall& lane) -> absl::Status {
    const int64_t length = cut.PieceLength(lane.segment, local_rank());
    DISTILL_RETURN_IF_ERROR(
        lane.comm.AllReduce(lane.in, lane.out, length, call.dtype, Undivided(call.op), lane.placement));
    return Divide(call, lane, length);
  };
  const auto after = [&](int64_t k) { return SpreadFromLanes(call, cut, k); };
  return lanes_.Run(cut.segments, cut.longest_piece_bytes(), call.placement, {before, part, across, after});
}

absl::Status LevelCalls::Reduce(const CommCall& call) {
  const LaneCut cut(call.count, lane_count_, SizeOf(call.dtype), layout_.hosts());
  const int root_host = layout_.HostOf(call.root);
  SegmentSlots& sums = ScratchIn(call.placement).whole;
  DISTILL_RETURN_IF_ERROR(sums.Fit(cut.longest_piece_bytes(), DeviceOf(call.placement)));
  const auto before = [&](int64_t k) { return ReduceToLanes(call, cut, k, sums.at(k)); };
  const auto part = [&](int64_t k) -> LanePart {
    if (!Carries(cut.lanes)) return {};
    const int64_t bytes = cut.PieceLength(k, local_rank()) * cut.size;
    return {sums.at(k), bytes, host() == root_host ? sums.at(k) : nullptr, bytes};
  };
  const auto across = [&](const LaneCall& lane) -> absl::Status {
    const int64_t length = cut.PieceLength(lane.segment, local_rank());
    DISTILL_RETURN_IF_ERROR(
        lane.comm.Reduce(lane.in, lane.out, length, call.dtype, Undivided(call.op), root_host, lane.placement));
    return host() == root_host ? Divide(call, lane, length) : absl::OkStatus();
  };
  const auto after = [&](int64_t k) -> absl::Status {
    if (host() != root_host) return absl::OkStatus();
    return CollectAtRoot(call, cut, k, sums.at(k));
  };
  return lanes_.Run(cut.segments, cut.longest_piece_bytes(), call.placement, {before, part, across, after});
}

absl::Status LevelCalls::CollectAtRoot(const CommCall& call, const LaneCut& cut, int64_t segment, const char* piece) {
  const bool takes = ranks_.rank() == call.root;
  const int root_lane = layout_.LocalRankOf(call.root);
  for (int lane = 0; lane < cut.lanes; ++lane) {
    const int64_t length = cut.PieceLength(segment, lane);
    char* place = takes ? call.out() + cut.PieceBegin(segment, lane) * cut.size : nullptr;
    if (lane == root_lane) {
      if (takes) DISTILL_RETURN_IF_ERROR(Move(place, piece, length * cut.size, call.placement));
    } else if (takes) {
      DISTILL_RETURN_IF_ERROR(inside_.Receive(place, length, call.dtype, lane, call.placement));
    } else if (local_rank() == lane) {
      DISTILL_RETURN_IF_ERROR(inside_.Send(piece, length, call.dtype, root_lane, call.placement));
    }
  }
  return absl::OkStatus();
}

absl::Status LevelCalls::Broadcast(const CommCall& call) {
  const LaneCut cut(call.count, lane_count_, SizeOf(call.dtype), layout_.hosts());
  const int root_host = layout_.HostOf(call.root);
  const bool here = host() == root_host;
  char* data = call.out();
  const auto before = [&](int64_t k) -> absl::Status {
    if (!here) return absl::OkStatus();
    return inside_.Broadcast(data + cut.Begin(k) * cut.size, cut.Length(k), call.dtype, layout_.LocalRankOf(call.root),
                             call.placement);
  };
  const auto part = [&](int64_t k) -> LanePart {
    if (!Carries(cut.lanes)) return {};
    char* piece = data + cut.PieceBegin(k, local_rank()) * cut.size;
    const int64_t bytes = cut.PieceLength(k, local_rank()) * cut.size;
    return {here ? piece : nullptr, bytes, here ? nullptr : piece, bytes};
  };
  const auto across = [&](const LaneCall& lane) {
    return lane.comm.Broadcast(here ? lane.in : lane.out, cut.PieceLength(lane.segment, local_rank()), call.dtype,
                               root_host, lane.placement);
  };
  const auto after = [&](int64_t k) -> absl::Status { return here ? absl::OkStatus() : SpreadFromLanes(call, cut, k); };
  return lanes_.Run(cut.segments, cut.longest_piece_bytes(), call.placement, {before, part, across, after});
}

absl::Status LevelCalls::SpreadFromLanes(const CommCall& call, const LaneCut& cut, int64_t segment) {
  if (cut.lanes != inside_.world_size()) {
    for (int lane = 0; lane < cut.lanes; ++lane) {
      DISTILL_RETURN_IF_ERROR(inside_.Broadcast(call.out() + cut.PieceBegin(segment, lane) * cut.size,
                                                cut.PieceLength(segment, lane), call.dtype, lane, call.placement));
    }
    return absl::OkStatus();
  }
  const int64_t even = cut.Even(segment);
  char* begin = call.out() + cut.Begin(segment) * cut.size;
  DISTILL_RETURN_IF_ERROR(
      inside_.AllGather(begin + local_rank() * even * cut.size, begin, even, call.dtype, call.placement));
  if (cut.Rest(segment) == 0) return absl::OkStatus();
  return inside_.Broadcast(begin + cut.lanes * even * cut.size, cut.Rest(segment), call.dtype, cut.lanes - 1,
                           call.placement);
}

absl::Status LevelCalls::Meet(const CommCall&) {
  DISTILL_RETURN_IF_ERROR(inside_.Barrier());
  if (local_rank() == 0) DISTILL_RETURN_IF_ERROR(lanes_.lane()->Barrier());
  return inside_.Barrier();
}

}  // namespace distill
