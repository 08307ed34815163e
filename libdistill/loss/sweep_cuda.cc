#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "libdistill/loss/sweep_cuda.h"

namespace distill {

bool HasCudaSweep() { return true; }

void SweepOnGpu(const GpuSweep& sweep, int device) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  const int error = EnqueueSweep(sweep, c10::cuda::getCurrentCUDAStream().stream());
  TORCH_CHECK(error == cudaSuccess, "the distillation loss's kernel did not start on GPU ", device, ": ",
              cudaGetErrorString(static_cast<cudaError_t>(error)));
}

}  // namespace distill
