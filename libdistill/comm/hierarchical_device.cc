// A segment's way over a lane. Host memory is the lane's to use; device memory is copied to a slot that the fabric can
// use, and from there. Where the fabric carries device memory (FI_HMEM) slots are memory of the device, registered
// once, and the lane adds up on the device: the copies are those of its own memory, a hundredth of the wire's time.
// Else slots are pinned host memory. The copies are on streams of their own, so that they, NCCL and the wire work at
// the same time on different segments. Messages and all-to-all, of which hosts have nothing to share, go through host
// memory as a whole.
#include <algorithm>
#include <vector>

#include "libdistill/comm/hierarchical_communicator.h"
#include "libdistill/core/status_macros.h"

namespace distill {

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

}  // namespace distill
