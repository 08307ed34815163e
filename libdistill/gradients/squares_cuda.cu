// See squares_cuda.h.
#include <cuda_runtime.h>

#include "libdistill/gradients/squares_device.cuh"

namespace distill {
namespace {

static_assert((kSquareThreads & (kSquareThreads - 1)) == 0, "threads are added up by halves");

// The block's sum, in its first thread.
__device__ double SumOfBlock(double of_thread) {
  __shared__ double of_threads[kSquareThreads];
  const int thread = static_cast<int>(threadIdx.x);
  of_threads[thread] = of_thread;
  for (int half = kSquareThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    AddUpperHalf(of_threads, thread, half);
  }
  return of_threads[0];
}

__global__ void __launch_bounds__(kSquareThreads) SquaresKernel(const float* values, int64_t count, double* sums) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kSquareThreads + threadIdx.x;
  const double sum =
      SumOfBlock(SquaresOfThread(values, count, first, static_cast<int64_t>(gridDim.x) * kSquareThreads));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kSquareThreads) SumsKernel(double* sums, int blocks) {
  const double sum = SumOfBlock(SumsOfThread(sums, blocks, static_cast<int>(threadIdx.x)));
  if (threadIdx.x == 0) sums[kMostSquareBlocks] = sum;
}

}  // namespace

bool HasSquareKernels() { return true; }

const char* EnqueueSquares(const float* values, int64_t count, double* sums, void* stream) {
  int blocks = SquareBlocks(count);
  void* squares[] = {&values, &count, &sums};
  void* totals[] = {&sums, &blocks};
  const auto on = static_cast<cudaStream_t>(stream);
  // Returns its own error, where <<<>>> would leave it among those of the thread's other calls.
  cudaError_t error = cudaLaunchKernel(reinterpret_cast<const void*>(&SquaresKernel),
                                       dim3(static_cast<unsigned>(blocks)), dim3(kSquareThreads), squares, 0, on);
  if (error == cudaSuccess) {
    error = cudaLaunchKernel(reinterpret_cast<const void*>(&SumsKernel), dim3(1), dim3(kSquareThreads), totals, 0, on);
  }
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace distill
