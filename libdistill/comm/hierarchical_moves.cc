// What moves data without arithmetic in two levels: see hierarchical_communicator.cc. Broadcast and all-gather cross
// each host's link once, whatever the number of its ranks. All-to-all and messages between two hosts, which have
// nothing to share, go directly from rank to rank (GoesFlat).
#include "libdistill/comm/hierarchical_communicator.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::Status HierarchicalCommunicator::BroadcastInLevels(const CommCall& call) {
  const LaneCut cut(call.count, lanes_, SizeOf(call.dtype));
  const int root_host = layout_.HostOf(call.root);
  const bool here = host() == root_host;
  char* data = call.out();
  const auto before = [&](int64_t k) -> absl::Status {
    if (!here) return absl::OkStatus();
    return inside_->Broadcast(data + cut.Begin(k) * cut.size, cut.Length(k), call.dtype, layout_.LocalRankOf(call.root),
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
  return Pipeline(cut.segments, PieceBytes(cut), call.placement, {before, part, across, after});
}

absl::Status HierarchicalCommunicator::SpreadFromLanes(const CommCall& call, const LaneCut& cut, int64_t segment) {
  if (cut.lanes != local_size()) {
    for (int lane = 0; lane < cut.lanes; ++lane) {
      DISTILL_RETURN_IF_ERROR(inside_->Broadcast(call.out() + cut.PieceBegin(segment, lane) * cut.size,
                                                 cut.PieceLength(segment, lane), call.dtype, lane, call.placement));
    }
    return absl::OkStatus();
  }
  const int64_t even = cut.Even(segment);
  char* begin = call.out() + cut.Begin(segment) * cut.size;
  DISTILL_RETURN_IF_ERROR(
      inside_->AllGather(begin + local_rank() * even * cut.size, begin, even, call.dtype, call.placement));
  if (cut.Rest(segment) == 0) return absl::OkStatus();
  return inside_->Broadcast(begin + cut.lanes * even * cut.size, cut.Rest(segment), call.dtype, cut.lanes - 1,
                            call.placement);
}

// The ranks of a host learn each other's blocks, each lane exchanges those of its seats with the other hosts, and its
// rank shows what it got to the others of its host.
absl::Status HierarchicalCommunicator::AllGatherInLevels(const CommCall& call) {
  const int64_t size = SizeOf(call.dtype);
  const int64_t seats_in_all = layout_.hosts() * seats();
  const BlockCut cut(call.count, seats_in_all, size);
  Scratch& scratch = ScratchIn(call.placement);
  const int64_t longest = cut.per_segment * size;
  DISTILL_RETURN_IF_ERROR(scratch.local.Fit(local_size() * longest, DeviceOf(call.placement)));
  DISTILL_RETURN_IF_ERROR(scratch.out.Fit(seats() * longest, DeviceOf(call.placement)));
  DISTILL_RETURN_IF_ERROR(scratch.in.Fit(seats_in_all * longest, DeviceOf(call.placement)));
  DISTILL_RETURN_IF_ERROR(scratch.out_of_lane.Fit(seats_in_all * longest, DeviceOf(call.placement)));
  const auto bytes = [&](int64_t k) { return cut.Length(k) * size; };
  const auto take = [&](int r, int64_t k, const char* block) {
    char* place = call.out() + (r * call.count + cut.Begin(k)) * size;
    return Move(place, block, bytes(k), call.placement);
  };
  const auto before = [&](int64_t k) -> absl::Status {
    const char* mine = call.in() + cut.Begin(k) * size;
    DISTILL_RETURN_IF_ERROR(inside_->AllGather(mine, scratch.local.at(k), cut.Length(k), call.dtype, call.placement));
    for (const int r : layout_.RanksOn(host())) {
      const char* block = scratch.local.at(k) + layout_.LocalRankOf(r) * bytes(k);
      const bool is_there = r == rank() && mine == call.out() + (r * call.count + cut.Begin(k)) * size;
      if (!is_there) DISTILL_RETURN_IF_ERROR(take(r, k, block));
      if (LaneOf(r) != local_rank()) continue;
      DISTILL_RETURN_IF_ERROR(Move(scratch.out.at(k) + SeatOf(r) * bytes(k), block, bytes(k), call.placement));
    }
    return absl::OkStatus();
  };
  const auto part = [&](int64_t k) -> LanePart {
    if (lane_ == nullptr) return {};
    const int64_t own = seats() * bytes(k);
    return {scratch.out.at(k), own, scratch.in.at(k), layout_.hosts() * own, host() * own, 0};
  };
  const auto across = [&](const LaneCall& lane) {
    return lane.comm.AllGather(lane.in, lane.out, seats() * cut.Length(lane.segment), call.dtype, lane.placement);
  };
  const auto after = [&](int64_t k) -> absl::Status {
    for (int lane = 0; lane < lanes_; ++lane) {
      char* got = lane == local_rank() ? scratch.in.at(k) : scratch.out_of_lane.at(k);
      DISTILL_RETURN_IF_ERROR(inside_->Broadcast(got, seats_in_all * cut.Length(k), call.dtype, lane, call.placement));
      for (int r = 0; r < world_size(); ++r) {
        if (OnThisHost(r) || LaneOf(r) != lane) continue;
        DISTILL_RETURN_IF_ERROR(take(r, k, got + (layout_.HostOf(r) * seats() + SeatOf(r)) * bytes(k)));
      }
    }
    return absl::OkStatus();
  };
  return Pipeline(cut.segments, seats_in_all * longest, call.placement, {before, part, across, after});
}

absl::Status HierarchicalCommunicator::MeetInLevels() {
  DISTILL_RETURN_IF_ERROR(inside_->Barrier());
  if (local_rank() == 0) DISTILL_RETURN_IF_ERROR(lane_->Barrier());
  return inside_->Barrier();
}

}  // namespace distill
