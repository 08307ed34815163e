#include "libdistill/core/check.h"
#include "libdistill/loss/sweep_cuda.h"

namespace distill {

bool HasCudaSweep() { return false; }

void SweepOnGpu(const GpuSweep&, int) { DISTILL_CHECK(false, "this build has no CUDA; ask HasCudaSweep first"); }

}  // namespace distill
