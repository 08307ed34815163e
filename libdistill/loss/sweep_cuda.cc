#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include "libdistill/loss/sweep_cuda.h"

namespace distill {

bool HasCudaSweep() { return true; }

void SweepOnGpu(const GpuSweep& sweep, int device) {
  const c10::Device gpu(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
  const c10::DeviceGuard guard(gpu);
  const int error = EnqueueSweep(sweep, c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(gpu).native_handle());
  TORCH_CHECK(error == cudaSuccess, "the distillation loss's kernel did not start on GPU ", device, ": ",
              cudaGetErrorString(static_cast<cudaError_t>(error)));
}

}  // namespace distill
