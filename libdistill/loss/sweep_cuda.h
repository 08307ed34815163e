// The sweep on a GPU; inside loss/ only, and read by nvcc too, so it is plain C++17.
#pragma once

#include <cstdint>

#include "libdistill/loss/sweep.h"

namespace distill {

// All pointers are the device's, those to biases too.
struct GpuSweep {
  RowOfProducts student, teacher;                  // the first rows: float32, bfloat16 or float16
  int64_t student_stride = 0, teacher_stride = 0;  // elements from a row to the next
  // Of the gradient: the student's products' type, whose places it takes; or, of float32 products, bfloat16 or float16:
  // it then takes the front half of its row, and gradients are twice the stride apart.
  DType gradient = DType::kFloat32;
  const int64_t* labels = nullptr;
  int64_t tokens = 0;
  double* divergences = nullptr;  // [tokens], as SweepSums has them
  double* ces = nullptr;
  SweepOptions options;
};

// Whether this build has kernels for GPUs.
bool HasCudaSweep();

// Enqueues SweepRow for every token on `stream` (a cudaStream_t) of the current device. Null, or why the kernel did not
// start.
const char* EnqueueSweep(const GpuSweep& sweep, void* stream);

}  // namespace distill
