// All-reduce, reduce and reduce-scatter in two levels: see hierarchical_communicator.cc.
#include "libdistill/comm/hierarchical_communicator.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// What is divided is divided at the end, once.
ReduceOp Undivided(ReduceOp op) { return op == ReduceOp::kAverage ? ReduceOp::kSum : op; }

}  // namespace

absl::Status HierarchicalCommunicator::ReduceToLanes(const CommCall& call, const LaneCut& cut, int64_t segment,
                                                     char* piece) {
  const ReduceOp op = Undivided(call.op);
  if (cut.lanes != local_size()) {
    for (int lane = 0; lane < cut.lanes; ++lane) {
      DISTILL_RETURN_IF_ERROR(inside_->Reduce(call.in() + cut.PieceBegin(segment, lane) * cut.size, piece,
                                              cut.PieceLength(segment, lane), call.dtype, op, lane, call.placement));
    }
    return absl::OkStatus();
  }
  const int64_t even = cut.Even(segment);
  const char* begin = call.in() + cut.Begin(segment) * cut.size;
  DISTILL_RETURN_IF_ERROR(inside_->ReduceScatter(begin, piece, even, call.dtype, op, call.placement));
  if (cut.Rest(segment) == 0) return absl::OkStatus();
  return inside_->Reduce(begin + cut.lanes * even * cut.size, piece + even * cut.size, cut.Rest(segment), call.dtype,
                         op, cut.lanes - 1, call.placement);
}

absl::Status HierarchicalCommunicator::Divide(const CommCall& call, const LaneCall& lane, int64_t count) const {
  if (call.op != ReduceOp::kAverage) return absl::OkStatus();
  const void* sum = lane.out;
  if (lane.placement.on_device) {
    return device_->Reduce(lane.out, &sum, 1, count, call.dtype, call.op, world_size());
  }
  distill::Reduce(lane.out, &sum, 1, count, call.dtype, call.op, world_size());
  return absl::OkStatus();
}

absl::Status HierarchicalCommunicator::AllReduceInLevels(const CommCall& call) {
  const LaneCut cut(call.count, lanes_, SizeOf(call.dtype));
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
  return Pipeline(cut.segments, PieceBytes(cut), call.placement, {before, part, across, after});
}

absl::Status HierarchicalCommunicator::ReduceInLevels(const CommCall& call) {
  const LaneCut cut(call.count, lanes_, SizeOf(call.dtype));
  const int root_host = layout_.HostOf(call.root);
  Slots& sums = ScratchIn(call.placement).out;
  DISTILL_RETURN_IF_ERROR(sums.Fit(PieceBytes(cut), DeviceOf(call.placement)));
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
  return Pipeline(cut.segments, PieceBytes(cut), call.placement, {before, part, across, after});
}

absl::Status HierarchicalCommunicator::CollectAtRoot(const CommCall& call, const LaneCut& cut, int64_t segment,
                                                     const char* piece) {
  const bool takes = rank() == call.root;
  const int root_lane = layout_.LocalRankOf(call.root);
  for (int lane = 0; lane < cut.lanes; ++lane) {
    const int64_t length = cut.PieceLength(segment, lane);
    char* place = takes ? call.out() + cut.PieceBegin(segment, lane) * cut.size : nullptr;
    if (lane == root_lane) {
      if (takes) DISTILL_RETURN_IF_ERROR(Move(place, piece, length * cut.size, call.placement));
    } else if (takes) {
      DISTILL_RETURN_IF_ERROR(inside_->Receive(place, length, call.dtype, lane, call.placement));
    } else if (local_rank() == lane) {
      DISTILL_RETURN_IF_ERROR(inside_->Send(piece, length, call.dtype, root_lane, call.placement));
    }
  }
  return absl::OkStatus();
}

// What this host has for a rank goes in that rank's lane; a lane's block for a host are those for its ranks there.
absl::Status HierarchicalCommunicator::ReduceScatterInLevels(const CommCall& call) {
  const int64_t size = SizeOf(call.dtype);
  const BlockCut cut(call.count, layout_.hosts() * seats(), size);
  Slots& sums = ScratchIn(call.placement).out;
  Slots& results = ScratchIn(call.placement).in;
  const int64_t longest = seats() * cut.per_segment * size;  // of a host's blocks
  DISTILL_RETURN_IF_ERROR(sums.Fit(layout_.hosts() * longest, DeviceOf(call.placement)));
  DISTILL_RETURN_IF_ERROR(results.Fit(longest, DeviceOf(call.placement)));
  const auto before = [&](int64_t k) -> absl::Status {
    for (int r = 0; r < world_size(); ++r) {
      char* place = sums.at(k) + (layout_.HostOf(r) * seats() + SeatOf(r)) * cut.Length(k) * size;
      DISTILL_RETURN_IF_ERROR(inside_->Reduce(call.in() + (r * call.count + cut.Begin(k)) * size, place, cut.Length(k),
                                              call.dtype, Undivided(call.op), LaneOf(r), call.placement));
    }
    return absl::OkStatus();
  };
  const auto part = [&](int64_t k) -> LanePart {
    if (lane_ == nullptr) return {};
    const int64_t bytes = seats() * cut.Length(k) * size;
    return {sums.at(k), layout_.hosts() * bytes, results.at(k), bytes, 0, host() * bytes};
  };
  const auto across = [&](const LaneCall& lane) -> absl::Status {
    const int64_t length = seats() * cut.Length(lane.segment);
    DISTILL_RETURN_IF_ERROR(
        lane.comm.ReduceScatter(lane.in, lane.out, length, call.dtype, Undivided(call.op), lane.placement));
    return Divide(call, lane, length);
  };
  const auto after = [&](int64_t k) -> absl::Status {
    char* place = call.out() + cut.Begin(k) * size;
    for (const int r : layout_.RanksOn(host())) {
      const char* block = results.at(k) + SeatOf(r) * cut.Length(k) * size;
      if (r == rank() && SeatOf(r) == 0) {
        DISTILL_RETURN_IF_ERROR(Move(place, block, cut.Length(k) * size, call.placement));
      } else if (r == rank()) {
        DISTILL_RETURN_IF_ERROR(inside_->Receive(place, cut.Length(k), call.dtype, LaneOf(r), call.placement));
      } else if (LaneOf(r) == local_rank()) {
        DISTILL_RETURN_IF_ERROR(
            inside_->Send(block, cut.Length(k), call.dtype, layout_.LocalRankOf(r), call.placement));
      }
    }
    return absl::OkStatus();
  };
  return Pipeline(cut.segments, layout_.hosts() * longest, call.placement, {before, part, across, after});
}

}  // namespace distill
