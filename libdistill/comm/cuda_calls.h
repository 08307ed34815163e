// What every use of CUDA's run-time library in comm/ shares. Internal to comm/, in builds with CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libdistill/comm/memory.h"

namespace distill {

// OK, or Internal: "what: CUDA's text for the code"; `code` is a cudaError_t.
[[nodiscard]] absl::Status CudaError(absl::string_view what, int code);

// While it lives `device` is the thread's current one; then that of before is again.
class OnCudaDevice {
 public:
  explicit OnCudaDevice(int device);
  ~OnCudaDevice();
  OnCudaDevice(const OnCudaDevice&) = delete;
  OnCudaDevice& operator=(const OnCudaDevice&) = delete;

 private:
  int before_;
};

// What an allocator gave for this device; `release` gives it back, with the device as the current one.
class CudaBytes : public CommMemory {
 public:
  CudaBytes(int device, void* data, int64_t bytes, std::function<void(void*)> release)
      : CommMemory(static_cast<char*>(data), bytes), device_(device), release_(std::move(release)) {}
  ~CudaBytes() override {
    const OnCudaDevice here(device_);
    release_(data());
  }

 private:
  const int device_;
  const std::function<void(void*)> release_;
};

}  // namespace distill
