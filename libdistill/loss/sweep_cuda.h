// The sweep on a GPU; inside loss/ only, and read by nvcc too, so it is plain C++17.
#pragma once

#include <cstdint>

#include "libdistill/loss/sweep.h"

namespace distill {

// Rows of products follow one another, options.vocabulary apart. All pointers are the device's, those to biases too.
struct GpuSweep {
  RowOfProducts student, teacher;  // the first rows: float32, bfloat16 or float16
  const int64_t* labels = nullptr;
  int64_t tokens = 0;
  double* divergences = nullptr;  // [tokens], as SweepSums has them
  double* ces = nullptr;
  SweepOptions options;
};

// Enqueues SweepRow for every token on `stream` (a cudaStream_t) of the current device. Returns a cudaError_t.
int EnqueueSweep(const GpuSweep& sweep, void* stream);

// Whether this build has kernels for GPUs.
bool HasCudaSweep();

// SweepRow for every token, on the device's current stream, without waiting for it. Throws c10::Error when the kernel
// can't be started.
void SweepOnGpu(const GpuSweep& sweep, int device);

}  // namespace distill
