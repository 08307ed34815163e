// What moves data without arithmetic in two levels: see hierarchical_communicator.cc. Broadcast and all-gather cross
// each host's link once, whatever the number of its ranks; all-to-all and messages between two hosts, which have
// nothing to share, go directly from rank to rank.
#include <cstring>

#include "libdistill/comm/hierarchical_communicator.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::Status HierarchicalCommunicator::DoBroadcast(void* buffer, int64_t count, DType dtype, int root,
                                                   Placement placement) {
  const int64_t bytes = count * SizeOf(dtype);
  if (placement.on_device) {
    return ThroughHost(buffer, bytes, buffer, bytes, placement, [&](const void* in, void* out) {
      std::memcpy(out, in, static_cast<size_t>(bytes));
      return DoBroadcast(out, count, dtype, root, {});
    });
  }
  job_->Next();
  const LaneCut cut(count, lanes_, SizeOf(dtype));
  const int root_host = layout_.HostOf(root);
  char* data = static_cast<char*>(buffer);
  const auto before = [&](int64_t k) -> absl::Status {
    if (host() != root_host) return absl::OkStatus();
    return inside_->Broadcast(data + cut.Begin(k) * cut.size, cut.Length(k), dtype, layout_.LocalRankOf(root));
  };
  const auto across = [&](int64_t k) -> absl::Status {
    if (!Carries(cut.lanes)) return absl::OkStatus();
    return lane_->Broadcast(data + cut.PieceBegin(k, local_rank()) * cut.size, cut.PieceLength(k, local_rank()), dtype,
                            root_host);
  };
  const auto after = [&](int64_t k) -> absl::Status {
    return host() == root_host ? absl::OkStatus() : SpreadFromLanes(cut, k, data, dtype, {});
  };
  return Pipeline(cut.segments, {before, across, after});
}

// The ranks of a host learn each other's blocks, each lane exchanges those of its seats with the other hosts, and its
// rank shows what it got to the others of its host.
absl::Status HierarchicalCommunicator::DoAllGather(const void* send, void* receive, int64_t count, DType dtype,
                                                   Placement placement) {
  const int64_t size = SizeOf(dtype);
  if (placement.on_device) {
    return ThroughHost(send, count * size, receive, world_size() * count * size, placement,
                       [&](const void* in, void* out) { return DoAllGather(in, out, count, dtype, {}); });
  }
  job_->Next();
  const int64_t seats_in_all = layout_.hosts() * seats();
  const BlockCut cut(count, seats_in_all, size);
  const int64_t longest = cut.per_segment * size;
  local_.Fit(local_size() * longest);
  out_.Fit(seats() * longest);
  in_.Fit(seats_in_all * longest);
  const auto bytes = [&](int64_t k) { return cut.Length(k) * size; };
  const auto take = [&](int r, int64_t k, const char* block) {
    char* place = static_cast<char*>(receive) + (r * count + cut.Begin(k)) * size;
    std::memcpy(place, block, static_cast<size_t>(bytes(k)));
  };
  const auto before = [&](int64_t k) -> absl::Status {
    const char* mine = static_cast<const char*>(send) + cut.Begin(k) * size;
    DISTILL_RETURN_IF_ERROR(inside_->AllGather(mine, local_.at(k), cut.Length(k), dtype));
    for (const int r : layout_.RanksOn(host())) {
      const char* block = local_.at(k) + layout_.LocalRankOf(r) * bytes(k);
      if (r != rank() || mine != static_cast<char*>(receive) + (r * count + cut.Begin(k)) * size) take(r, k, block);
      if (LaneOf(r) != local_rank()) continue;
      std::memcpy(out_.at(k) + SeatOf(r) * bytes(k), block, static_cast<size_t>(bytes(k)));
    }
    return absl::OkStatus();
  };
  const auto across = [&](int64_t k) {
    return lane_->AllGather(out_.at(k), in_.at(k), seats() * cut.Length(k), dtype);
  };
  const auto after = [&](int64_t k) -> absl::Status {
    for (int lane = 0; lane < lanes_; ++lane) {
      char* got = lane == local_rank() ? in_.at(k) : out_of_lane_.at(k);
      DISTILL_RETURN_IF_ERROR(inside_->Broadcast(got, seats_in_all * cut.Length(k), dtype, lane));
      for (int r = 0; r < world_size(); ++r) {
        if (OnThisHost(r) || LaneOf(r) != lane) continue;
        take(r, k, got + (layout_.HostOf(r) * seats() + SeatOf(r)) * bytes(k));
      }
    }
    return absl::OkStatus();
  };
  out_of_lane_.Fit(seats_in_all * longest);
  return Pipeline(cut.segments, {before, across, after});
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
