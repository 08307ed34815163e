// What a call over the fabric does with the bytes that it moves, wherever its buffers lie: in host memory by this
// thread, in device memory by the device. Internal to comm/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/comm/device_memory.h"
#include "libdistill/comm/device_reduce.h"
#include "libdistill/comm/memory.h"
#include "libdistill/comm/plain_memory.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/comm/reduce_op.h"
#include "libdistill/core/status_macros.h"

namespace distill {

// One thread at a time. Work on a device can fail: the call continues, with wrong bytes, and Finish says so.
class BufferWork {
 public:
  // Null: host memory.
  explicit BufferWork(std::shared_ptr<DeviceMemory> device) : device_(std::move(device)) {}
  bool on_device() const { return device_ != nullptr; }

  // Memory of the buffers' kind.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<CommMemory>> Allocate(int64_t bytes) const {
    return device_ != nullptr ? device_->Allocate(bytes) : PlainMemory::Create(bytes);
  }

  // No overlap.
  void Copy(void* to, const void* from, int64_t bytes) {
    if (device_ == nullptr) {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    } else {
      Reduce(to, &from, 1, bytes, DType::kUInt8, ReduceOp::kSum);
    }
  }

  // The same between these buffers and this thread's own memory.
  void CopyHost(void* to, const void* from, int64_t bytes) {
    if (device_ == nullptr) {
      std::memcpy(to, from, static_cast<size_t>(bytes));
      return;
    }
    if (status_.ok()) status_ = device_->AwaitNetwork();
    if (status_.ok()) status_ = device_->Copy(to, from, bytes, /*stream=*/nullptr);
  }

  // As distill::Reduce.
  void Reduce(void* out, const void* const* sources, int source_count, int64_t count, DType dtype, ReduceOp op,
              int divisor = 1) {
    if (device_ == nullptr) return distill::Reduce(out, sources, source_count, count, dtype, op, divisor);
    if (status_.ok()) status_ = device_->AwaitNetwork();
    if (status_.ok()) status_ = ReduceOnDevice(out, sources, source_count, count, dtype, op, divisor);
  }

  // After the last message of a call: its results may be read.
  [[nodiscard]] absl::Status Finish() {
    if (device_ == nullptr) return absl::OkStatus();
    if (status_.ok()) status_ = device_->AwaitNetwork();
    return std::exchange(status_, absl::OkStatus());
  }

 private:
  // What a kernel's arguments do not hold is added to the sum of those before by further ones: in the order of the
  // sources, but that `out` comes first then, if it is one of them. A sum of 16 bits is rounded by each kernel.
  absl::Status ReduceOnDevice(void* out, const void* const* sources, int source_count, int64_t count, DType dtype,
                              ReduceOp op, int divisor) {
    if (source_count <= kMostDeviceSources) {
      return device_->Reduce(out, sources, source_count, count, dtype, op, divisor);
    }
    std::vector<const void*> left(sources, sources + source_count);
    const auto own = std::find(left.begin(), left.end(), out);
    if (own != left.end()) std::rotate(left.begin(), own, own + 1);
    while (true) {
      const int now = std::min(static_cast<int>(left.size()), kMostDeviceSources);
      const bool last = now == static_cast<int>(left.size());
      DISTILL_RETURN_IF_ERROR(device_->Reduce(out, left.data(), now, count, dtype, op, last ? divisor : 1));
      if (last) return absl::OkStatus();
      left[static_cast<size_t>(now - 1)] = out;
      left.erase(left.begin(), left.begin() + now - 1);
    }
  }

  const std::shared_ptr<DeviceMemory> device_;
  absl::Status status_;
};

}  // namespace distill
