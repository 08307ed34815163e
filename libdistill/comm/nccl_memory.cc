#include "libdistill/comm/nccl_memory.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/cuda_calls.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::StatusOr<std::unique_ptr<CommMemory>> NcclMemory::Create(int device, int64_t bytes) {
  DISTILL_RETURN_IF_ERROR(CudaError("cudaSetDevice", cudaSetDevice(device)));
  void* data = nullptr;
  if (const ncclResult_t result = ncclMemAlloc(&data, static_cast<size_t>(bytes)); result != ncclSuccess) {
    cudaGetLastError();  // else the next call on this thread would have it
    return absl::ResourceExhaustedError(
        absl::StrCat("no ", bytes, " bytes of device memory: ncclMemAlloc: ", ncclGetErrorString(result)));
  }
  std::unique_ptr<CommMemory> memory(new NcclMemory(device, static_cast<char*>(data), bytes));
  DISTILL_RETURN_IF_ERROR(CudaError("cudaMemset", cudaMemset(data, 0, static_cast<size_t>(bytes))));
  // cudaMemset may return before it is done, and streams of the caller's need not wait for it.
  DISTILL_RETURN_IF_ERROR(CudaError("cudaMemset", cudaStreamSynchronize(nullptr)));
  return memory;
}

NcclMemory::~NcclMemory() {
  const OnCudaDevice here(device_);
  ncclMemFree(data());
}

}  // namespace distill
