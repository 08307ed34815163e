#include <cuda_runtime.h>

#include "libdistill/optim/adamw_device.cuh"

namespace distill {
namespace {

constexpr int kThreads = 512;

__global__ void __launch_bounds__(kThreads) AdamWKernel(const __grid_constant__ AdamWLaunch launch) {
  UpdateAsThread(launch, blockIdx.x, static_cast<int>(threadIdx.x), kThreads);
}

}  // namespace

static_assert(sizeof(AdamWLaunch) <= 4096, "kernel arguments have 4 KiB");

const char* EnqueueAdamW(const AdamWLaunch& launch, void* stream) {
  const int64_t blocks = launch.first_block[launch.num_runs];
  if (blocks == 0) return nullptr;
  void* arguments[] = {const_cast<AdamWLaunch*>(&launch)};
  // Returns its own error, where <<<>>> would leave it among those of the thread's other calls.
  const cudaError_t error =
      cudaLaunchKernel(reinterpret_cast<const void*>(&AdamWKernel), dim3(static_cast<unsigned>(blocks)), dim3(kThreads),
                       arguments, 0, static_cast<cudaStream_t>(stream));
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace distill
