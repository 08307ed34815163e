// What moves data without arithmetic in two levels: see hierarchical_communicator.cc. Broadcast and all-gather cross
// each host's link once, whatever the number of its ranks; all-to-all and messages between two hosts, which have
// nothing to share, go directly from rank to rank.
#include "libdistill/comm/hierarchical_communicator.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::Status HierarchicalCommunicator::DoBroadcast(void* buffer, int64_t count, DType dtype, int root,
                                                   Placement placement) {
  job_->Next();
  const LaneCut cut(count, lanes_, SizeOf(dtype));
  const int root_host = layout_.HostOf(root);
  const bool here = host() == root_host;
  char* data = static_cast<char*>(buffer);
  const auto before = [&](int64_t k) -> absl::Status {
    if (!here) return absl::OkStatus();
    return inside_->Broadcast(data + cut.Begin(k) * cut.size, cut.Length(k), dtype, layout_.LocalRankOf(root),
                              placement);
  };
  const auto part = [&](int64_t k) -> LanePart {
    if (!Carries(cut.lanes)) return {};
    char* piece = data + cut.PieceBegin(k, local_rank()) * cut.size;
    const int64_t bytes = cut.PieceLength(k, local_rank()) * cut.size;
    return {here ? piece : nullptr, bytes, here ? nullptr : piece, bytes};
  };
  const auto across = [&](const LaneCall& call) {
    return call.lane.Broadcast(here ? call.in : call.out, cut.PieceLength(call.segment, local_rank()), dtype, root_host,
                               call.placement);
  };
  const auto after = [&](int64_t k) -> absl::Status {
    return here ? absl::OkStatus() : SpreadFromLanes(cut, k, data, dtype, placement);
  };
  return Pipeline(cut.segments, PieceBytes(cut), placement, {before, part, across, after});
}

// The ranks of a host learn each other's blocks, each lane exchanges those of its seats with the other hosts, and its
// rank shows what it got to the others of its host.
absl::Status HierarchicalCommunicator::DoAllGather(const void* send, void* receive, int64_t count, DType dtype,
                                                   Placement placement) {
  job_->Next();
  const int64_t size = SizeOf(dtype);
  if (GoesFlat(CommOperation::kAllGather, world_size() * count * size, placement)) {
    return flat_->AllGather(send, receive, count, dtype);
  }
  const int64_t seats_in_all = layout_.hosts() * seats();
  const BlockCut cut(count, seats_in_all, size);
  Scratch& scratch = ScratchIn(placement);
  const int64_t longest = cut.per_segment * size;
  DISTILL_RETURN_IF_ERROR(scratch.local.Fit(local_size() * longest, DeviceOf(placement)));
  DISTILL_RETURN_IF_ERROR(scratch.out.Fit(seats() * longest, DeviceOf(placement)));
  DISTILL_RETURN_IF_ERROR(scratch.in.Fit(seats_in_all * longest, DeviceOf(placement)));
  DISTILL_RETURN_IF_ERROR(scratch.out_of_lane.Fit(seats_in_all * longest, DeviceOf(placement)));
  const auto bytes = [&](int64_t k) { return cut.Length(k) * size; };
  const auto take = [&](int r, int64_t k, const char* block) {
    char* place = static_cast<char*>(receive) + (r * count + cut.Begin(k)) * size;
    return Move(place, block, bytes(k), placement);
  };
  const auto before = [&](int64_t k) -> absl::Status {
    const char* mine = static_cast<const char*>(send) + cut.Begin(k) * size;
    DISTILL_RETURN_IF_ERROR(inside_->AllGather(mine, scratch.local.at(k), cut.Length(k), dtype, placement));
    for (const int r : layout_.RanksOn(host())) {
      const char* block = scratch.local.at(k) + layout_.LocalRankOf(r) * bytes(k);
      const bool is_there = r == rank() && mine == static_cast<char*>(receive) + (r * count + cut.Begin(k)) * size;
      if (!is_there) DISTILL_RETURN_IF_ERROR(take(r, k, block));
      if (LaneOf(r) != local_rank()) continue;
      DISTILL_RETURN_IF_ERROR(Move(scratch.out.at(k) + SeatOf(r) * bytes(k), block, bytes(k), placement));
    }
    return absl::OkStatus();
  };
  const auto part = [&](int64_t k) -> LanePart {
    if (lane_ == nullptr) return {};
    const int64_t own = seats() * bytes(k);
    return {scratch.out.at(k), own, scratch.in.at(k), layout_.hosts() * own, host() * own, 0};
  };
  const auto across = [&](const LaneCall& call) {
    return call.lane.AllGather(call.in, call.out, seats() * cut.Length(call.segment), dtype, call.placement);
  };
  const auto after = [&](int64_t k) -> absl::Status {
    for (int lane = 0; lane < lanes_; ++lane) {
      char* got = lane == local_rank() ? scratch.in.at(k) : scratch.out_of_lane.at(k);
      DISTILL_RETURN_IF_ERROR(inside_->Broadcast(got, seats_in_all * cut.Length(k), dtype, lane, placement));
      for (int r = 0; r < world_size(); ++r) {
        if (OnThisHost(r) || LaneOf(r) != lane) continue;
        DISTILL_RETURN_IF_ERROR(take(r, k, got + (layout_.HostOf(r) * seats() + SeatOf(r)) * bytes(k)));
      }
    }
    return absl::OkStatus();
  };
  return Pipeline(cut.segments, seats_in_all * longest, placement, {before, part, across, after});
}

absl::Status HierarchicalCommunicator::DoAllToAll(const void* send, void* receive, int64_t count, DType dtype,
                                                  Placement placement) {
  const int64_t bytes = world_size() * count * SizeOf(dtype);
  if (placement.on_device) {
    return ThroughHost(send, bytes, receive, bytes, placement,
                       [&](const void* in, void* out) { return DoAllToAll(in, out, count, dtype, {}); });
  }
  job_->Next();
  return flat_->AllToAll(send, receive, count, dtype);
}

absl::Status HierarchicalCommunicator::DoBarrier() {
  job_->Next();
  DISTILL_RETURN_IF_ERROR(inside_->Barrier());
  if (local_rank() == 0) DISTILL_RETURN_IF_ERROR(lane_->Barrier());
  return inside_->Barrier();
}

absl::Status HierarchicalCommunicator::DoSend(const void* data, int64_t count, DType dtype, int peer,
                                              Placement placement) {
  if (OnThisHost(peer)) return inside_->Send(data, count, dtype, layout_.LocalRankOf(peer), placement);
  if (!placement.on_device) return flat_->Send(data, count, dtype, peer);
  return ThroughHost(data, count * SizeOf(dtype), nullptr, 0, placement,
                     [&](const void* in, void*) { return flat_->Send(in, count, dtype, peer); });
}

absl::Status HierarchicalCommunicator::DoReceive(void* data, int64_t count, DType dtype, int peer,
                                                 Placement placement) {
  if (OnThisHost(peer)) return inside_->Receive(data, count, dtype, layout_.LocalRankOf(peer), placement);
  if (!placement.on_device) return flat_->Receive(data, count, dtype, peer);
  return ThroughHost(nullptr, 0, data, count * SizeOf(dtype), placement,
                     [&](const void*, void* out) { return flat_->Receive(out, count, dtype, peer); });
}

}  // namespace distill
