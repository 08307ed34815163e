// See device_reduce.h. An element a thread, in a loop over the grid: the kernels wait for memory, and what they add
// came over a network that is slower than any GPU's memory by far.
#include "libdistill/comm/device_reduce.h"

#include <cuda_runtime_api.h>

#include "libdistill/comm/device_elements.cuh"

namespace distill {
namespace {

constexpr int kThreads = 256;
// Few enough to leave the device to the computation beside it.
constexpr int64_t kMostBlocks = 512;

template <typename Stored>
__global__ void ReduceKernel(Stored* out, DeviceSources sources, int64_t count, ReduceOp op, int divisor) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    ReduceElement(out, sources, i, op, divisor);
  }
}

template <typename Stored>
int Launch(Stored* out, const DeviceSources& sources, int64_t count, ReduceOp op, int divisor, void* stream) {
  const int64_t wanted = (count + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
  void* arguments[] = {&out, const_cast<DeviceSources*>(&sources), &count, &op, &divisor};
  // Returns its own error, where <<<>>> would leave it among those of the thread's other calls.
  return cudaLaunchKernel(reinterpret_cast<const void*>(&ReduceKernel<Stored>), dim3(blocks), dim3(kThreads), arguments,
                          0, static_cast<cudaStream_t>(stream));
}

}  // namespace

int EnqueueReduce(void* out, const void* const* sources, int source_count, int64_t count, DType dtype, ReduceOp op,
                  int divisor, void* stream) {
  if (count == 0) return cudaSuccess;
  if (source_count > kMostDeviceSources) return cudaErrorInvalidValue;
  DeviceSources all = {};
  while (all.count < source_count) {
    all.at[all.count] = sources[all.count];
    ++all.count;
  }
  return ForType(dtype,
                 [&](auto type) { return Launch(static_cast<decltype(type)*>(out), all, count, op, divisor, stream); });
}

int LoadReduceKernels() {
  int error = cudaSuccess;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt32,
                            DType::kInt64, DType::kUInt8}) {
    if (error != cudaSuccess) break;
    error = ForType(dtype, [](auto type) -> int {
      cudaFuncAttributes attributes;
      return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&ReduceKernel<decltype(type)>));
    });
  }
  return error;
}

}  // namespace distill
