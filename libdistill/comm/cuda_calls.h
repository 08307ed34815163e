// What every use of CUDA's run-time library in comm/ shares. Internal to comm/, in builds with CUDA.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

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

}  // namespace distill
