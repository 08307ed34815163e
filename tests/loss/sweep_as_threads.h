// What a block of a GPU's threads does to a row, one thread after the other on the CPU.
#pragma once

#include "libdistill/loss/sweep_cuda.h"

namespace distill::testing {

SweepSums SweepRowAsThreads(const GpuSweep& sweep, int64_t row, int threads);

}  // namespace distill::testing
