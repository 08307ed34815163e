// The sum of squares of a bucket in a GPU's memory; inside gradients/ only, and read by nvcc too, so it is plain C++17.
//
// Two kernels: each block of the first adds up squares of its part, the second what the blocks have. A float's square
// is exact in float64, in which all is added, and the order of the additions depends on the count alone: the same bits
// in every run and on every GPU. Values are read once, 4 bytes each, and nothing is written but a number a block.
#pragma once

#include <cstdint>

namespace distill {

constexpr int kSquareThreads = 256;
constexpr int kMostSquareBlocks = 1024;  // four for each multiprocessor of the largest GPU
// float64 elements of device memory that a call uses: one a block, and the sum.
constexpr int kSquareSums = kMostSquareBlocks + 1;

// Whether this build has the kernels.
bool HasSquareKernels();

// Enqueues sums[kMostSquareBlocks] = the sum of the squares of `count` values, above 0, on `stream` (a cudaStream_t) of
// the current device. Null, or why a kernel did not start.
const char* EnqueueSquares(const float* values, int64_t count, double* sums, void* stream);

}  // namespace distill
