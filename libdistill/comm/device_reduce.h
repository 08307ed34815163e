// The arithmetic of collectives on device memory: what comm/reduce.h does in host memory, with the same order and the
// same rounding, as CUDA kernels. Internal to comm/; read by nvcc too, so it is plain C++17.
#pragma once

#include <cstdint>

#include "libdistill/comm/reduce_op.h"
#include "libdistill/core/dtype.h"

namespace distill {

// What fits the arguments of a kernel.
constexpr int kMostDeviceSources = 500;

// Enqueues out[i] = (sources[0][i] op sources[1][i] op ...) / divisor, in this order, on `stream` (a cudaStream_t);
// kAverage sums.
// float16 and bfloat16 are accumulated in float32 and rounded once. `out` may be one of the sources; else it overlaps
// none. Addresses need be aligned to their elements only. Returns a cudaError_t.
int EnqueueReduce(void* out, const void* const* sources, int source_count, int64_t count, DType dtype, ReduceOp op,
                  int divisor, void* stream);

// Loads the kernels on the current device now: the first launch might otherwise wait for a kernel of NCCL's that waits
// for this rank. Returns a cudaError_t.
int LoadReduceKernels();

}  // namespace distill
