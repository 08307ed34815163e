// What benchmarks of training measure of the machine that they run on: its rate of matrix products.
#pragma once

#include <cstdint>

#include <torch/types.h>

namespace distill {

// FLOP/s of this rank in `dtype`: the best of three products of matrices of 4096 x 4096, on a GPU of
// 8192 x 8192: in less its launch would count.
double MatrixRate(torch::Dtype dtype, torch::Device device = torch::kCPU);

// Waits for what was enqueued on a GPU; returns at once on the CPU.
void Synchronize(torch::Device device);

}  // namespace distill
