#include "libdistill/comm/gpu.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/cuda_calls.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// "7.5" for 75.
std::string CapabilityText(int capability) { return absl::StrCat(capability / 10, ".", capability % 10); }

}  // namespace

absl::StatusOr<std::string> GpuAddress(int device_index) {
  if (device_index < 0) return std::string();
  char address[32] = {};
  DISTILL_RETURN_IF_ERROR(CudaError(absl::StrCat("asking for the PCI address of GPU ", device_index),
                                    cudaDeviceGetPCIBusId(address, sizeof(address), device_index)));
  return std::string(address);
}

absl::Status CheckGpuAge(int device_index) {
  const std::string what = absl::StrCat("asking for the compute capability of GPU ", device_index);
  int major = 0, minor = 0;
  DISTILL_RETURN_IF_ERROR(
      CudaError(what, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_index)));
  DISTILL_RETURN_IF_ERROR(
      CudaError(what, cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device_index)));
  if (10 * major + minor >= DISTILL_OLDEST_GPU) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("GPU ", device_index, " has compute capability ", CapabilityText(10 * major + minor),
                   ", and this build has code from ", CapabilityText(DISTILL_OLDEST_GPU),
                   " on (CUDA 13 compiles for nothing older than a T4): set device: cpu, or choose another GPU with "
                   "CUDA_VISIBLE_DEVICES"));
}

}  // namespace distill
