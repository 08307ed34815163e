// What benchmarks of training measure of the machine that they run on: its rate of matrix products, and memory.
#pragma once

#include <cstdint>

#include <torch/types.h>

namespace distill {

// FLOP/s of this rank in `dtype`: the best of three products of 4096 x 4096 matrices.
double MatrixRate(torch::Dtype dtype, torch::Device device = torch::kCPU);

// Waits for what was enqueued on a GPU; returns at once on the CPU.
void Synchronize(torch::Device device);

// The most memory that this process has had since the last ResetPeak: on the CPU its resident pages less the other
// ranks' that it maps now, on a GPU what torch has allocated. In GiB. To be asked while buckets are mapped.
double PeakGiB(torch::Device device = torch::kCPU);
void ResetPeak(torch::Device device);

}  // namespace distill
