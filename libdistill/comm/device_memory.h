// What collectives in two levels do with a GPU's memory beside NCCL: allocate it, copy it, and add up what the fabric
// brings. Internal to comm/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libdistill/comm/memory.h"
#include "libdistill/comm/reduce_op.h"
#include "libdistill/comm/rows.h"
#include "libdistill/core/dtype.h"

namespace distill {

// Reduce, Copy and the copies of one segment may each be under way on a thread of its own.
class DeviceMemory {
 public:
  // Unimplemented in a build without CUDA. `timeout`: for one copy or reduction.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<DeviceMemory>> Open(int device_index, absl::Duration timeout);
  virtual ~DeviceMemory() = default;

  // The GPU's number; -1: host memory stands in for it.
  virtual int device_index() const = 0;
  // Where it hangs: "0000:10:1C.0"; empty: not known.
  virtual std::string pci_address() const = 0;
  // FailedPrecondition: what a network card writes into this memory by itself cannot be made visible to the device.
  [[nodiscard]] virtual absl::Status CheckNetworkAccess() const = 0;

  // Memory of the device, and host memory that it copies from and to at full speed. ResourceExhausted.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<CommMemory>> Allocate(int64_t bytes) = 0;
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<CommMemory>> AllocatePinned(int64_t bytes) = 0;

  // Begins a copy between any two memories, of segment `segment`; what was enqueued on other streams must have ended.
  // Two segments in a row may be under way.
  [[nodiscard]] virtual absl::Status BeginCopy(int64_t segment, void* to, const void* from, int64_t bytes) = 0;
  // Blocks until the segment's last copy has ended.
  [[nodiscard]] virtual absl::Status AwaitCopy(int64_t segment) = 0;
  // A copy after what is enqueued on `stream` (a cudaStream_t). Blocks until it has ended.
  [[nodiscard]] virtual absl::Status Copy(void* to, const void* from, int64_t bytes, void* stream) = 0;
  // The same of rows inside this memory: all copies are enqueued, one call of CUDA each, before the last one is waited
  // for.
  [[nodiscard]] virtual absl::Status CopyRows(absl::Span<const Rows> copies, void* stream) = 0;

  // As distill::Reduce, on the device's memory. Blocks until it is done, after which a network card may read the
  // result.
  [[nodiscard]] virtual absl::Status Reduce(void* out, const void* const* sources, int source_count, int64_t count,
                                            DType dtype, ReduceOp op, int divisor) = 0;
  // What a network card has written may be read by the device from here on.
  [[nodiscard]] virtual absl::Status AwaitNetwork() = 0;
};

}  // namespace distill
