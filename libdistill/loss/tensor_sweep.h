// The sweep of a chunk in torch's operations: for the types that the kernels lack, and what they are compared with;
// inside loss/ only.
#pragma once

#include <torch/types.h>

#include "libdistill/loss/chunk_sweep.h"

namespace distill {

// As ChunkSweep::Run, in float32, or in float64 for float64 products. About eight tensors [C, V] are alive.
ChunkSums SweepTensors(const ChunkProducts& student, const ChunkProducts& teacher, const torch::Tensor& labels,
                       const DistillationOptions& options, Divergence divergence, bool wants_gradient);

}  // namespace distill
