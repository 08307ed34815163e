// Collectives in two levels: inside each host through memory (or between its GPUs), and across hosts over the fabric.
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
//
// The parts share the job's rendezvous, by which a loss anywhere ends all of them; they name ranks as the job does.
#include "libdistill/comm/hierarchical_communicator.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// What is divided is divided at the end, once.
ReduceOp Undivided(ReduceOp op) { return op == ReduceOp::kAverage ? ReduceOp::kSum : op; }

}  // namespace

HierarchicalCommunicator::HierarchicalCommunicator(const Setup& setup, HierarchicalParts parts)
    : Communicator(setup.world.rank, setup.Names()),
      seed_(setup),
      name_(absl::StrCat(parts.inside->takes_device_memory() ? "nccl" : "shm", "+fabric")),
      layout_(std::move(parts.layout)),
      costs_layout_(LayoutOf(layout_)),
      lanes_(layout_.fewest()),
      job_(std::move(parts.job)),
      device_(std::move(parts.device)),
      inside_(std::move(parts.inside)),
      lane_(std::move(parts.lane)),
      device_lane_(std::move(parts.device_lane)),
      flat_(std::move(parts.flat)),
      lane_calls_(std::move(parts.lane_calls)) {}

// Whoever is still in a call hears that this rank has done its part in it.
HierarchicalCommunicator::~HierarchicalCommunicator() { job_->rendezvous().NoteFinishedCalls(job_->call()); }

absl::Status HierarchicalCommunicator::CheckPeers() {
  DISTILL_RETURN_IF_ERROR(inside_->CheckPeers());
  return job_->rendezvous().CheckPeers();
}

void HierarchicalCommunicator::Abandon(const absl::Status& error) {
  job_->End(error);
  inside_->EndPart(error);  // else this rank would seem to have left in order
  lane_calls_.reset();
  lane_.reset();  // nothing writes to the caller's buffers from here on
  device_lane_.reset();
  flat_.reset();
}

absl::Status HierarchicalCommunicator::Pipeline(int64_t segments, int64_t slot_bytes, Placement placement,
                                                const Steps& steps) {
  if (placement.on_device) DISTILL_RETURN_IF_ERROR(FitStage(slot_bytes));
  if (segments == 1) {  // without a change of threads
    DISTILL_RETURN_IF_ERROR(Before(0, placement, steps));
    if (lane_ != nullptr) DISTILL_RETURN_IF_ERROR(Across(0, placement, steps));
    return After(0, placement, steps);
  }
  LaneCalls calls;
  absl::Status status = RunSegments(segments, placement, steps, calls);
  if (status.ok()) return status;
  job_->End(status);
  for (const std::optional<AsyncCall>& call : calls) {
    if (call.has_value()) call->Wait().IgnoreError();  // it uses the caller's buffers
  }
  return status;
}

absl::Status HierarchicalCommunicator::RunSegments(int64_t segments, Placement placement, const Steps& steps,
                                                   LaneCalls& calls) {
  constexpr int64_t kAhead = std::tuple_size_v<LaneCalls>;
  for (int64_t k = 0; k < segments + kAhead; ++k) {
    std::optional<AsyncCall>& call = calls[static_cast<size_t>(k % kAhead)];
    if (k >= kAhead) {
      if (call.has_value()) DISTILL_RETURN_IF_ERROR(call->Wait());
      DISTILL_RETURN_IF_ERROR(After(k - kAhead, placement, steps));
    }
    if (k >= segments) continue;
    DISTILL_RETURN_IF_ERROR(Before(k, placement, steps));
    if (lane_ == nullptr) continue;
    call = lane_calls_->Run([this, &steps, placement, k](Communicator&) { return Across(k, placement, steps); });
  }
  return absl::OkStatus();
}

absl::Status HierarchicalCommunicator::ReduceToLanes(const LaneCut& cut, int64_t segment, const char* send, char* piece,
                                                     DType dtype, ReduceOp op, Placement placement) {
  const ReduceOp inner = Undivided(op);
  if (cut.lanes != local_size()) {
    for (int lane = 0; lane < cut.lanes; ++lane) {
      DISTILL_RETURN_IF_ERROR(inside_->Reduce(send + cut.PieceBegin(segment, lane) * cut.size, piece,
                                              cut.PieceLength(segment, lane), dtype, inner, lane, placement));
    }
    return absl::OkStatus();
  }
  const int64_t even = cut.Even(segment);
  DISTILL_RETURN_IF_ERROR(
      inside_->ReduceScatter(send + cut.Begin(segment) * cut.size, piece, even, dtype, inner, placement));
  if (cut.Rest(segment) == 0) return absl::OkStatus();
  return inside_->Reduce(send + (cut.Begin(segment) + cut.lanes * even) * cut.size, piece + even * cut.size,
                         cut.Rest(segment), dtype, inner, cut.lanes - 1, placement);
}

absl::Status HierarchicalCommunicator::SpreadFromLanes(const LaneCut& cut, int64_t segment, char* data, DType dtype,
                                                       Placement placement) {
  if (cut.lanes != local_size()) {
    for (int lane = 0; lane < cut.lanes; ++lane) {
      DISTILL_RETURN_IF_ERROR(inside_->Broadcast(data + cut.PieceBegin(segment, lane) * cut.size,
                                                 cut.PieceLength(segment, lane), dtype, lane, placement));
    }
    return absl::OkStatus();
  }
  const int64_t even = cut.Even(segment);
  char* begin = data + cut.Begin(segment) * cut.size;
  DISTILL_RETURN_IF_ERROR(inside_->AllGather(begin + local_rank() * even * cut.size, begin, even, dtype, placement));
  if (cut.Rest(segment) == 0) return absl::OkStatus();
  return inside_->Broadcast(begin + cut.lanes * even * cut.size, cut.Rest(segment), dtype, cut.lanes - 1, placement);
}

absl::Status HierarchicalCommunicator::Divide(void* data, int64_t count, DType dtype, ReduceOp op,
                                              Placement placement) const {
  if (op != ReduceOp::kAverage) return absl::OkStatus();
  if (placement.on_device) return device_->Reduce(data, &data, 1, count, dtype, op, world_size());
  distill::Reduce(data, &data, 1, count, dtype, op, world_size());
  return absl::OkStatus();
}

absl::Status HierarchicalCommunicator::Move(void* to, const void* from, int64_t bytes, Placement placement) const {
  if (placement.on_device) return device_->Copy(to, from, bytes, placement.stream);
  std::memcpy(to, from, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status HierarchicalCommunicator::Slots::Fit(int64_t wanted, const std::shared_ptr<DeviceMemory>& device) {
  const int64_t bytes = 2 * RoundUp(wanted);
  if (memory != nullptr && memory->bytes() >= bytes) return absl::OkStatus();
  memory = nullptr;
  DISTILL_ASSIGN_OR_RETURN(memory, BufferWork(device).Allocate(bytes));
  return absl::OkStatus();
}

absl::Status HierarchicalCommunicator::DoAllReduce(const void* send, void* receive, int64_t count, DType dtype,
                                                   ReduceOp op, Placement placement) {
  job_->Next();
  if (GoesFlat(CommOperation::kAllReduce, count * SizeOf(dtype), placement)) {
    return flat_->AllReduce(send, receive, count, dtype, op);
  }
  const LaneCut cut(count, lanes_, SizeOf(dtype));
  const char* from = static_cast<const char*>(send);
  char* to = static_cast<char*>(receive);
  const bool carries = Carries(cut.lanes);
  const auto piece = [&](int64_t k) { return to + (carries ? cut.PieceBegin(k, local_rank()) : 0) * cut.size; };
  const auto before = [&](int64_t k) { return ReduceToLanes(cut, k, from, piece(k), dtype, op, placement); };
  const auto part = [&](int64_t k) -> LanePart {
    if (!carries) return {};
    const int64_t bytes = cut.PieceLength(k, local_rank()) * cut.size;
    return {piece(k), bytes, piece(k), bytes};
  };
  const auto across = [&](const LaneCall& call) -> absl::Status {
    const int64_t length = cut.PieceLength(call.segment, local_rank());
    DISTILL_RETURN_IF_ERROR(call.lane.AllReduce(call.in, call.out, length, dtype, Undivided(op), call.placement));
    return Divide(call.out, length, dtype, op, call.placement);
  };
  const auto after = [&](int64_t k) { return SpreadFromLanes(cut, k, to, dtype, placement); };
  return Pipeline(cut.segments, PieceBytes(cut), placement, {before, part, across, after});
}

absl::Status HierarchicalCommunicator::DoReduce(const void* send, void* receive, int64_t count, DType dtype,
                                                ReduceOp op, int root, Placement placement) {
  job_->Next();
  const LaneCut cut(count, lanes_, SizeOf(dtype));
  const int root_host = layout_.HostOf(root);
  Slots& sums = ScratchIn(placement).out;
  DISTILL_RETURN_IF_ERROR(sums.Fit(PieceBytes(cut), DeviceOf(placement)));
  const auto before = [&](int64_t k) {
    return ReduceToLanes(cut, k, static_cast<const char*>(send), sums.at(k), dtype, op, placement);
  };
  const auto part = [&](int64_t k) -> LanePart {
    if (!Carries(cut.lanes)) return {};
    const int64_t bytes = cut.PieceLength(k, local_rank()) * cut.size;
    return {sums.at(k), bytes, host() == root_host ? sums.at(k) : nullptr, bytes};
  };
  const auto across = [&](const LaneCall& call) -> absl::Status {
    const int64_t length = cut.PieceLength(call.segment, local_rank());
    DISTILL_RETURN_IF_ERROR(
        call.lane.Reduce(call.in, call.out, length, dtype, Undivided(op), root_host, call.placement));
    return host() == root_host ? Divide(call.out, length, dtype, op, call.placement) : absl::OkStatus();
  };
  const auto after = [&](int64_t k) -> absl::Status {
    if (host() != root_host) return absl::OkStatus();
    return CollectAtRoot(cut, k, sums.at(k), static_cast<char*>(receive), dtype, root, placement);
  };
  return Pipeline(cut.segments, PieceBytes(cut), placement, {before, part, across, after});
}

absl::Status HierarchicalCommunicator::CollectAtRoot(const LaneCut& cut, int64_t segment, const char* piece,
                                                     char* receive, DType dtype, int root, Placement placement) {
  const int root_lane = layout_.LocalRankOf(root);
  for (int lane = 0; lane < cut.lanes; ++lane) {
    const int64_t length = cut.PieceLength(segment, lane);
    char* place = rank() == root ? receive + cut.PieceBegin(segment, lane) * cut.size : nullptr;
    if (lane == root_lane) {
      if (rank() == root) DISTILL_RETURN_IF_ERROR(Move(place, piece, length * cut.size, placement));
    } else if (rank() == root) {
      DISTILL_RETURN_IF_ERROR(inside_->Receive(place, length, dtype, lane, placement));
    } else if (local_rank() == lane) {
      DISTILL_RETURN_IF_ERROR(inside_->Send(piece, length, dtype, root_lane, placement));
    }
  }
  return absl::OkStatus();
}

// What this host has for a rank goes in that rank's lane; a lane's block for a host are those for its ranks there.
absl::Status HierarchicalCommunicator::DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype,
                                                       ReduceOp op, Placement placement) {
  job_->Next();
  const int64_t size = SizeOf(dtype);
  if (GoesFlat(CommOperation::kReduceScatter, world_size() * count * size, placement)) {
    return flat_->ReduceScatter(send, receive, count, dtype, op);
  }
  const BlockCut cut(count, layout_.hosts() * seats(), size);
  Slots& sums = ScratchIn(placement).out;
  Slots& results = ScratchIn(placement).in;
  const int64_t longest = seats() * cut.per_segment * size;  // of a host's blocks
  DISTILL_RETURN_IF_ERROR(sums.Fit(layout_.hosts() * longest, DeviceOf(placement)));
  DISTILL_RETURN_IF_ERROR(results.Fit(longest, DeviceOf(placement)));
  const auto before = [&](int64_t k) -> absl::Status {
    for (int r = 0; r < world_size(); ++r) {
      char* place = sums.at(k) + (layout_.HostOf(r) * seats() + SeatOf(r)) * cut.Length(k) * size;
      DISTILL_RETURN_IF_ERROR(inside_->Reduce(static_cast<const char*>(send) + (r * count + cut.Begin(k)) * size, place,
                                              cut.Length(k), dtype, Undivided(op), LaneOf(r), placement));
    }
    return absl::OkStatus();
  };
  const auto part = [&](int64_t k) -> LanePart {
    if (lane_ == nullptr) return {};
    const int64_t bytes = seats() * cut.Length(k) * size;
    return {sums.at(k), layout_.hosts() * bytes, results.at(k), bytes, 0, host() * bytes};
  };
  const auto across = [&](const LaneCall& call) -> absl::Status {
    const int64_t length = seats() * cut.Length(call.segment);
    DISTILL_RETURN_IF_ERROR(call.lane.ReduceScatter(call.in, call.out, length, dtype, Undivided(op), call.placement));
    return Divide(call.out, length, dtype, op, call.placement);
  };
  const auto after = [&](int64_t k) -> absl::Status {
    char* place = static_cast<char*>(receive) + cut.Begin(k) * size;
    for (const int r : layout_.RanksOn(host())) {
      const char* block = results.at(k) + SeatOf(r) * cut.Length(k) * size;
      if (r == rank() && SeatOf(r) == 0) {
        DISTILL_RETURN_IF_ERROR(Move(place, block, cut.Length(k) * size, placement));
      } else if (r == rank()) {
        DISTILL_RETURN_IF_ERROR(inside_->Receive(place, cut.Length(k), dtype, LaneOf(r), placement));
      } else if (LaneOf(r) == local_rank()) {
        DISTILL_RETURN_IF_ERROR(inside_->Send(block, cut.Length(k), dtype, layout_.LocalRankOf(r), placement));
      }
    }
    return absl::OkStatus();
  };
  return Pipeline(cut.segments, layout_.hosts() * longest, placement, {before, part, across, after});
}

}  // namespace distill
