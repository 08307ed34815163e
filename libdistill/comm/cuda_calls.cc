#include "libdistill/comm/cuda_calls.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"

namespace distill {

absl::Status CudaError(absl::string_view what, int code) {
  if (code == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": ", cudaGetErrorString(static_cast<cudaError_t>(code))));
}

OnCudaDevice::OnCudaDevice(int device) : before_(device) {
  cudaGetDevice(&before_);
  cudaSetDevice(device);
}

OnCudaDevice::~OnCudaDevice() { cudaSetDevice(before_); }

}  // namespace distill
