// What benchmarks of training measure of the machine that they run on: its rate of matrix products.
#pragma once

#include <cstdint>

#include <torch/types.h>

namespace distill {

// FLOP/s of this rank in `dtype`: the best of three products of 4096 x 4096 matrices.
double MatrixRate(torch::Dtype dtype, torch::Device device = torch::kCPU);

// Waits for what was enqueued on a GPU; returns at once on the CPU.
void Synchronize(torch::Device device);

}  // namespace distill
