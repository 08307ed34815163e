// What a block of a GPU's threads does to a row, one thread after the other on the CPU.
#pragma once

#include "libdistill/loss/sweep_cuda.h"

namespace distill::testing {

// Which of the two kernels: the one that a GPU would take, or the one for all sweeps.
enum class SweepKernelKind { kChosen, kGeneral };

SweepSums SweepRowAsThreads(const GpuSweep& sweep, int64_t row, int threads,
                            SweepKernelKind kind = SweepKernelKind::kChosen);

// Whether a GPU takes the kernel for what is usual (IsUsual, sweep_device.cuh).
bool IsUsualSweep(const GpuSweep& sweep);

}  // namespace distill::testing
