// The sum of the squares of gradients in a GPU's memory, without a copy of them in a wider type.
//
//   DeviceSquares squares;                           // one for each thread that uses it
//   const double sum = squares.Sum(bucket.values);
#pragma once

#include <cstdint>

#include <torch/types.h>

#include "libdistill/gradients/squares_cuda.h"

namespace distill {

class DeviceSquares {
 public:
  // Of the memory that it keeps on the device.
  static constexpr int64_t kBytes = kSquareSums * static_cast<int64_t>(sizeof(double));

  // Of flat, contiguous float32 values, on the device's current stream, for which it then waits. Added up in float64 by
  // kernels of our own; without CUDA, in this build or on that device, by SumOfSquaresByRows. Throws c10::Error.
  double Sum(const torch::Tensor& values);

 private:
  torch::Tensor sums_;  // float64, [kSquareSums]
};

// By LibTorch alone, on any device, for which it waits: float32 norms of rows of 1024 values, whose squares are added
// up in float64. Within 1e-6 of the exact sum; infinite already where a row's squares leave float32's range. Takes
// 12 bytes for each 1024 values, a row's norm in both types. Throws c10::Error.
double SumOfSquaresByRows(const torch::Tensor& values);

}  // namespace distill
