#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include "libdistill/optim/adamw_cuda.h"

namespace distill {

bool HasCudaAdamW() { return true; }

void AdamWOnGpu(const AdamWRun* runs, int64_t num_runs, const AdamWFactors& factors, int device) {
  const c10::Device gpu(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
  const c10::DeviceGuard guard(gpu);
  void* const stream = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(gpu).native_handle();
  for (int64_t next = 0; next < num_runs;) {
    const int error = EnqueueAdamW(NextLaunch(runs, num_runs, next, factors), stream);
    TORCH_CHECK(error == cudaSuccess, "the optimizer's kernel did not start on GPU ", device, ": ",
                cudaGetErrorString(static_cast<cudaError_t>(error)));
  }
}

}  // namespace distill
