#include "libdistill/comm/lane_pipeline.h"

#include <algorithm>

#include "libdistill/comm/buffer_work.h"
#include "libdistill/comm/lane_cut.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::Status SegmentSlots::Fit(int64_t wanted, const std::shared_ptr<DeviceMemory>& device) {
  const int64_t bytes = SlotsBytes(wanted);
  if (memory != nullptr && memory->bytes() >= bytes) return absl::OkStatus();
  memory = nullptr;
  DISTILL_ASSIGN_OR_RETURN(memory, BufferWork(device).Allocate(bytes));
  return absl::OkStatus();
}

absl::Status LanePipeline::Run(int64_t segments, int64_t slot_bytes, Placement placement, const LaneSteps& steps) {
  if (placement.on_device) DISTILL_RETURN_IF_ERROR(FitStage(slot_bytes));
  if (segments == 1) {  // without a change of threads
    DISTILL_RETURN_IF_ERROR(Before(0, placement, steps));
    if (parts_.lane != nullptr) DISTILL_RETURN_IF_ERROR(Across(0, placement, steps));
    return After(0, placement, steps);
  }
  Calls calls;
  absl::Status status = RunSegments(segments, placement, steps, calls);
  if (status.ok()) return status;
  parts_.job->End(status);
  for (const std::optional<AsyncCall>& call : calls) {
    if (call.has_value()) call->Wait().IgnoreError();  // it uses the caller's buffers
  }
  return status;
}

absl::Status LanePipeline::RunSegments(int64_t segments, Placement placement, const LaneSteps& steps, Calls& calls) {
  constexpr int64_t kAhead = std::tuple_size_v<Calls>;
  for (int64_t k = 0; k < segments + kAhead; ++k) {
    std::optional<AsyncCall>& call = calls[static_cast<size_t>(k % kAhead)];
    if (k >= kAhead) {
      if (call.has_value()) DISTILL_RETURN_IF_ERROR(call->Wait());
      DISTILL_RETURN_IF_ERROR(After(k - kAhead, placement, steps));
    }
    if (k >= segments) continue;
    DISTILL_RETURN_IF_ERROR(Before(k, placement, steps));
    if (parts_.lane == nullptr) continue;
    call = parts_.calls->Run([this, &steps, placement, k](Communicator&) { return Across(k, placement, steps); });
  }
  return absl::OkStatus();
}

// A segment's way over a lane. Host memory is the lane's to use; device memory is copied to a slot that the fabric can
// use, and from there. Where the fabric carries device memory (FI_HMEM) slots are memory of the device, registered
// once, and the lane adds up on the device: the copies are those of its own memory, a hundredth of the wire's time.
// Else slots are pinned host memory. The copies are on streams of their own, so that they, NCCL and the wire work at
// the same time on different segments. Messages and all-to-all, of which hosts have nothing to share, go through host
// memory as a whole.
absl::Status LanePipeline::FitStage(int64_t slot_bytes) {
  if (parts_.lane == nullptr) return absl::OkStatus();
  if (stage_ != nullptr && stage_->bytes() >= SlotsBytes(slot_bytes)) return absl::OkStatus();
  const int64_t wanted = StageBytes(slot_bytes);
  stage_ = nullptr;
  DISTILL_ASSIGN_OR_RETURN(stage_, parts_.device_lane != nullptr ? parts_.device_lane->AllocateHere(wanted)
                                                                 : parts_.device->AllocatePinned(wanted));
  return absl::OkStatus();
}

absl::Status LanePipeline::Before(int64_t segment, Placement placement, const LaneSteps& steps) {
  DISTILL_RETURN_IF_ERROR(steps.before(segment));
  if (!placement.on_device) return absl::OkStatus();
  const LanePart part = steps.part(segment);
  if (part.in == nullptr) return absl::OkStatus();
  return parts_.device->BeginCopy(segment, SegmentSlot(*stage_, segment) + part.in_at, part.in, part.in_bytes);
}

absl::Status LanePipeline::Across(int64_t segment, Placement placement, const LaneSteps& steps) {
  const LanePart part = steps.part(segment);
  if (part.empty()) return absl::OkStatus();
  if (!placement.on_device) return steps.across({segment, *parts_.lane, part.in, part.out, {}});
  if (part.in != nullptr) DISTILL_RETURN_IF_ERROR(parts_.device->AwaitCopy(segment));
  char* slot = SegmentSlot(*stage_, segment);
  const Placement there = {.on_device = parts_.device_lane != nullptr};
  Communicator& lane = parts_.device_lane != nullptr ? *parts_.device_lane : *parts_.lane;
  DISTILL_RETURN_IF_ERROR(steps.across({segment, lane, slot + part.in_at, slot + part.out_at, there}));
  if (part.out == nullptr) return absl::OkStatus();
  return parts_.device->BeginCopy(segment, part.out, slot + part.out_at, part.out_bytes);
}

absl::Status LanePipeline::After(int64_t segment, Placement placement, const LaneSteps& steps) {
  if (placement.on_device && steps.part(segment).out != nullptr) {
    DISTILL_RETURN_IF_ERROR(parts_.device->AwaitCopy(segment));
  }
  return steps.after(segment);
}

void LanePipeline::Close() {
  parts_.calls.reset();
  parts_.lane.reset();
  parts_.device_lane.reset();
}

}  // namespace distill
