// The way of a call's segments through the levels: inside the host, across on a lane, inside again. Internal to comm/.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libdistill/comm/async.h"
#include "libdistill/comm/backend.h"
#include "libdistill/comm/device_memory.h"
#include "libdistill/comm/fabric_communicator.h"
#include "libdistill/comm/lane_cut.h"
#include "libdistill/comm/part_rendezvous.h"

namespace distill {

// What a lane is given of a segment and what it gives; nulls on ranks without a part in it. Of device memory it is
// copied to a slot that the fabric can use, and from there, where the two lie so far from the slot's begin.
struct LanePart {
  char* in = nullptr;
  int64_t in_bytes = 0;
  char* out = nullptr;
  int64_t out_bytes = 0;
  int64_t in_at = 0;
  int64_t out_at = 0;
  bool empty() const { return in == nullptr && out == nullptr; }
};

// The communicator of a lane, and the buffers of its call.
struct LaneCall {
  int64_t segment;
  Communicator& comm;
  char* in;
  char* out;
  Placement placement;
};

// What happens to a segment: inside the host, then across on the lane's thread (on ranks that have a part), then
// inside again.
struct LaneSteps {
  absl::FunctionRef<absl::Status(int64_t segment)> before;
  absl::FunctionRef<LanePart(int64_t segment)> part;
  absl::FunctionRef<absl::Status(const LaneCall& call)> across;
  absl::FunctionRef<absl::Status(int64_t segment)> after;
};

// Two buffers that alternate with the segments, in one memory.
inline char* SegmentSlot(const CommMemory& memory, int64_t segment) {
  return memory.data() + segment % 2 * (memory.bytes() / 2);
}
// Bytes of two slots of at least so many: the second is aligned as well as the first.
constexpr int64_t SlotsBytes(int64_t bytes) { return 2 * ((bytes + 255) / 256 * 256); }
// Bytes of the two slots where parts of device memory, of so many bytes at most, wait for the fabric: no fewer than
// long calls between few hosts take, since slots that must grow are allocated anew.
constexpr int64_t StageBytes(int64_t slot_bytes) {
  return std::max<int64_t>(SlotsBytes(slot_bytes), 2 * kLaneSegmentBytes);
}
struct SegmentSlots {
  char* at(int64_t segment) const { return SegmentSlot(*memory, segment); }
  // At least so many bytes each; `device`: where they are; null: in the host.
  absl::Status Fit(int64_t wanted, const std::shared_ptr<DeviceMemory>& device);
  std::unique_ptr<CommMemory> memory;
};

// What a rank's lane is made of.
struct LaneParts {
  std::shared_ptr<JobCalls> job;
  std::shared_ptr<DeviceMemory> device;  // with GPUs
  // The ranks with this one's local rank, one of each host, by hosts; null where some host has fewer ranks.
  std::unique_ptr<CommBackend> lane;
  // The same ranks as `lane`, for device memory; null where `lane` carries what was copied to host memory.
  std::unique_ptr<FabricCommunicator> device_lane;
  std::unique_ptr<AsyncCalls> calls;  // of `lane`; goes first: it uses the lane
};

class LanePipeline {
 public:
  explicit LanePipeline(LaneParts parts) : parts_(std::move(parts)) {}

  // Null on a rank without a lane.
  CommBackend* lane() const { return parts_.lane.get(); }

  // Blocks until all segments have gone their way, two of them under way at a time. `slot_bytes`: what the longest part
  // takes. After an error the job's waits have ended, and nothing uses the buffers.
  [[nodiscard]] absl::Status Run(int64_t segments, int64_t slot_bytes, Placement placement, const LaneSteps& steps);

  // Ends the lane: nothing writes to the caller's buffers from here on.
  void Close();

 private:
  using Calls = std::array<std::optional<AsyncCall>, 2>;
  absl::Status RunSegments(int64_t segments, Placement placement, const LaneSteps& steps, Calls& calls);
  absl::Status Before(int64_t segment, Placement placement, const LaneSteps& steps);
  absl::Status Across(int64_t segment, Placement placement, const LaneSteps& steps);
  absl::Status After(int64_t segment, Placement placement, const LaneSteps& steps);
  // Where device memory waits for the fabric.
  absl::Status FitStage(int64_t slot_bytes);

  std::unique_ptr<CommMemory> stage_;  // two slots that the fabric can use; made by the first call that needs them
  LaneParts parts_;
};

}  // namespace distill
