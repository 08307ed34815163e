// The sweeps of layer_sweep.h on a GPU, but for dropping; inside nn/ only, and read by nvcc too, so it is plain C++17.
// Pointers are the device's, and types may be float16 too. Each enqueues its kernel on `stream` (a cudaStream_t) of the
// current device, without waiting; null, or why the kernel did not start. The same bits on every call, though not the
// CPU's (layer_sweep_device.cuh).
#pragma once

#include <cstdint>

#include "libdistill/nn/layer_sweep.h"

namespace distill {

// Whether this build has kernels for GPUs.
bool HasCudaLayerSweeps();

// Of `count` rows.
const char* EnqueueNorm(const NormRows& rows, int64_t count, void* stream);

// The blocks of threads that take the gradient of so many rows of `size` elements, each with a sum of its own for the
// weight.
int64_t NormGradientParts(int64_t count, int64_t size);
// rows.weight_gradient, if not null: float32 [NormGradientParts(), H], written; the gradient is their sum.
const char* EnqueueNormGradient(const NormRows& rows, int64_t count, void* stream);

const char* EnqueueGated(const GatedRows& rows, int64_t count, void* stream);
const char* EnqueueGatedGradient(const GatedRows& rows, int64_t count, void* stream);

const char* EnqueueRotate(const RotatedRows& rows, int64_t count, void* stream);

}  // namespace distill
