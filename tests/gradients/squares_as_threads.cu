#include "tests/gradients/squares_as_threads.h"

#include "libdistill/gradients/squares_device.cuh"

namespace distill::testing {
namespace {

double SumOfBlock(double* of_threads) {
  for (int half = kSquareThreads / 2; half > 0; half /= 2) {
    for (int thread = 0; thread < kSquareThreads; ++thread) AddUpperHalf(of_threads, thread, half);
  }
  return of_threads[0];
}

}  // namespace

double SumOfSquaresAsThreads(const float* values, int64_t count) {
  const int blocks = SquareBlocks(count);
  double sums[kSquareSums];
  double of_threads[kSquareThreads];
  for (int block = 0; block < blocks; ++block) {
    for (int thread = 0; thread < kSquareThreads; ++thread) {
      const int64_t first = static_cast<int64_t>(block) * kSquareThreads + thread;
      of_threads[thread] = SquaresOfThread(values, count, first, static_cast<int64_t>(blocks) * kSquareThreads);
    }
    sums[block] = SumOfBlock(of_threads);
  }
  for (int thread = 0; thread < kSquareThreads; ++thread) of_threads[thread] = SumsOfThread(sums, blocks, thread);
  return SumOfBlock(of_threads);
}

}  // namespace distill::testing
