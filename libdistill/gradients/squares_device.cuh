// What a thread does in the kernels of squares_cuda.h; compiled for the host as well, where a test adds up as the GPU
// does.
#pragma once

#include <cstdint>

#include "libdistill/gradients/squares_cuda.h"

namespace distill {

// Of the first kernel: 16 values for each thread before there are more blocks.
inline int SquareBlocks(int64_t count) {
  const int64_t wanted = (count + kSquareThreads * 16 - 1) / (kSquareThreads * 16);
  return static_cast<int>(wanted < kMostSquareBlocks ? wanted : kMostSquareBlocks);
}

// Every `stride`-th value from `first` on. Four sums, so that four reads are under way at a time.
__host__ __device__ inline double SquaresOfThread(const float* values, int64_t count, int64_t first, int64_t stride) {
  double sums[4] = {0, 0, 0, 0};
  int64_t i = first;
  for (; i + 3 * stride < count; i += 4 * stride) {
    for (int k = 0; k < 4; ++k) {
      const double x = values[i + k * stride];
      sums[k] += x * x;
    }
  }
  for (; i < count; i += stride) {
    const double x = values[i];
    sums[0] += x * x;
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Of the second kernel: the blocks' sums that this thread adds up.
__host__ __device__ inline double SumsOfThread(const double* sums, int blocks, int thread) {
  double sum = 0;
  for (int block = thread; block < blocks; block += kSquareThreads) sum += sums[block];
  return sum;
}

// One step of adding up what a block's threads have, the upper half of `2 * half` of them to the lower one.
__host__ __device__ inline void AddUpperHalf(double* of_threads, int thread, int half) {
  if (thread < half) of_threads[thread] += of_threads[thread + half];
}

}  // namespace distill
