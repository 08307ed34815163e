#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "libdistill/optim/adamw_cuda.h"

namespace distill {

bool HasCudaAdamW() { return true; }

void AdamWOnGpu(const AdamWRun* runs, int64_t num_runs, const AdamWFactors& factors, int device) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  void* const stream = c10::cuda::getCurrentCUDAStream().stream();
  for (int64_t next = 0; next < num_runs;) {
    const int error = EnqueueAdamW(NextLaunch(runs, num_runs, next, factors), stream);
    TORCH_CHECK(error == cudaSuccess, "the optimizer's kernel did not start on GPU ", device, ": ",
                cudaGetErrorString(static_cast<cudaError_t>(error)));
  }
}

}  // namespace distill
