// Pinned host memory between a GPU and the fabric: two slots, and copies to and from device memory on a stream of its
// own. Internal to comm/.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace distill {

// Slots alternate with the segments of a call: `segment` stands for slot segment % 2. Any thread, one at a time a slot.
class DeviceStage {
 public:
  // Unimplemented in a build without CUDA. `timeout`: for a copy.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<DeviceStage>> Create(int device_index, int64_t slot_bytes,
                                                                           absl::Duration timeout);
  virtual ~DeviceStage() = default;

  virtual char* slot(int64_t segment) const = 0;
  // Begin a copy from and to device memory; what was enqueued on other streams must have ended.
  [[nodiscard]] virtual absl::Status CopyOut(int64_t segment, const void* device_memory, int64_t bytes) = 0;
  [[nodiscard]] virtual absl::Status CopyIn(void* device_memory, int64_t segment, int64_t bytes) = 0;
  // Blocks until the slot's last copy has ended.
  [[nodiscard]] virtual absl::Status Await(int64_t segment) = 0;
  // A copy between any memory of the host and the device's, after what is enqueued on `stream` (a cudaStream_t). Blocks
  // until it has ended.
  [[nodiscard]] virtual absl::Status Copy(void* to, const void* from, int64_t bytes, void* stream) = 0;
};

}  // namespace distill
