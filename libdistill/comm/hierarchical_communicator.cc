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

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

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

// A segment's way over a lane. Host memory is the lane's to use; device memory is copied to a slot that the fabric can
// use, and from there. Where the fabric carries device memory (FI_HMEM) slots are memory of the device, registered
// once, and the lane adds up on the device: the copies are those of its own memory, a hundredth of the wire's time.
// Else slots are pinned host memory. The copies are on streams of their own, so that they, NCCL and the wire work at
// the same time on different segments. Messages and all-to-all, of which hosts have nothing to share, go through host
// memory as a whole.
absl::Status HierarchicalCommunicator::FitStage(int64_t slot_bytes) {
  if (lane_ == nullptr) return absl::OkStatus();
  const int64_t bytes = 2 * RoundUp(slot_bytes);
  if (stage_ != nullptr && stage_->bytes() >= bytes) return absl::OkStatus();
  const int64_t wanted = std::max<int64_t>(bytes, 2 * kLaneSegmentBytes);
  stage_ = nullptr;
  DISTILL_ASSIGN_OR_RETURN(
      stage_, device_lane_ != nullptr ? device_lane_->AllocateHere(wanted) : device_->AllocatePinned(wanted));
  return absl::OkStatus();
}

absl::Status HierarchicalCommunicator::Before(int64_t segment, Placement placement, const Steps& steps) {
  DISTILL_RETURN_IF_ERROR(steps.before(segment));
  if (!placement.on_device) return absl::OkStatus();
  const LanePart part = steps.part(segment);
  if (part.in == nullptr) return absl::OkStatus();
  return device_->BeginCopy(segment, StageSlot(segment) + part.in_at, part.in, part.in_bytes);
}

absl::Status HierarchicalCommunicator::Across(int64_t segment, Placement placement, const Steps& steps) {
  const LanePart part = steps.part(segment);
  if (part.empty()) return absl::OkStatus();
  if (!placement.on_device) return steps.across({segment, *lane_, part.in, part.out, {}});
  if (part.in != nullptr) DISTILL_RETURN_IF_ERROR(device_->AwaitCopy(segment));
  char* slot = StageSlot(segment);
  const Placement there = {.on_device = device_lane_ != nullptr};
  Communicator& lane = device_lane_ != nullptr ? *device_lane_ : *lane_;
  DISTILL_RETURN_IF_ERROR(steps.across({segment, lane, slot + part.in_at, slot + part.out_at, there}));
  if (part.out == nullptr) return absl::OkStatus();
  return device_->BeginCopy(segment, part.out, slot + part.out_at, part.out_bytes);
}

absl::Status HierarchicalCommunicator::After(int64_t segment, Placement placement, const Steps& steps) {
  if (placement.on_device && steps.part(segment).out != nullptr) {
    DISTILL_RETURN_IF_ERROR(device_->AwaitCopy(segment));
  }
  return steps.after(segment);
}

absl::Status HierarchicalCommunicator::ThroughHost(const CommCall& call) {
  const auto bytes_of = [&](const void* buffer, int blocks) { return buffer == nullptr ? 0 : blocks * call.bytes(); };
  std::vector<char> in(static_cast<size_t>(bytes_of(call.input, call.input_blocks(world_size()))));
  std::vector<char> out(static_cast<size_t>(bytes_of(call.output, call.output_blocks(world_size()))));
  CommCall there = call;
  there.placement = {};
  there.input = in.data();
  there.output = out.data();
  const int64_t in_bytes = static_cast<int64_t>(in.size());
  const int64_t out_bytes = static_cast<int64_t>(out.size());
  if (in_bytes > 0) DISTILL_RETURN_IF_ERROR(device_->Copy(in.data(), call.input, in_bytes, call.placement.stream));
  DISTILL_RETURN_IF_ERROR(flat_->Run(there));
  if (out_bytes == 0) return absl::OkStatus();
  return device_->Copy(call.output, out.data(), out_bytes, call.placement.stream);
}

absl::StatusOr<std::unique_ptr<CommMemory>> HierarchicalCommunicator::DoAllocate(int64_t bytes, Placement placement) {
  job_->Next();
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommMemory> memory, inside_->Allocate(bytes, placement));
  if (takes_device_memory()) return memory;  // with GPUs a lane has buffers of its own
  if (lane_ != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(memory, lane_->RegisterToo(std::move(memory)));
  }
  return flat_->RegisterToo(std::move(memory));
}

absl::StatusOr<std::unique_ptr<Communicator>> HierarchicalCommunicator::DoSplit(const SplitPart& part) {
  return SplitFrom(*this, seed_, part.members, part.rank,
                   [gpus = takes_device_memory()](Setup setup) -> MadeCommunicator {
                     if (setup.one_host && gpus) return CreateNcclCommunicator(std::move(setup));
                     if (setup.world.world_size == 1) return CreateAloneBackend();
                     if (setup.one_host) return CreateShmCommunicator(std::move(setup));
                     const bool levels = gpus || HostLayout(setup.host_ids).most() > 1;
                     return levels ? CreateHierarchicalCommunicator(std::move(setup), gpus)
                                   : CreateFabricCommunicator(std::move(setup));
                   });
}

}  // namespace distill
