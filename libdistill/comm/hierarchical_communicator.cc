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
#include "libdistill/core/status_macros.h"

namespace distill {

HierarchicalCommunicator::HierarchicalCommunicator(const Setup& setup, HierarchicalParts parts)
    : CommBackend(setup.world.rank, setup.Names()),
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

absl::Status HierarchicalCommunicator::Execute(const CommCall& call) {
  if (IsPair(call.operation) && OnThisHost(call.peer)) {
    CommCall inner = call;
    inner.peer = layout_.LocalRankOf(call.peer);
    return inside_->Run(inner);
  }
  if (!IsPair(call.operation)) job_->Next();
  if (GoesFlat(call)) return call.placement.on_device ? ThroughHost(call) : flat_->Run(call);
  switch (call.operation) {
    case CommOperation::kAllReduce:
      return AllReduceInLevels(call);
    case CommOperation::kReduceScatter:
      return ReduceScatterInLevels(call);
    case CommOperation::kAllGather:
      return AllGatherInLevels(call);
    case CommOperation::kBroadcast:
      return BroadcastInLevels(call);
    case CommOperation::kReduce:
      return ReduceInLevels(call);
    default:
      return MeetInLevels();
  }
}

// What hosts have nothing to share of, and what the table of costs has go between all ranks, as if they had a host
// each.
bool HierarchicalCommunicator::GoesFlat(const CommCall& call) const {
  if (IsPair(call.operation) || call.operation == CommOperation::kAllToAll) return true;
  if (!HasAlgorithms(call.operation) || call.placement.on_device) return false;
  return !seed_.tuning.TakesLevels(call.operation, call.blocks(world_size()) * call.bytes(), costs_layout_);
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

}  // namespace distill
