#include "libdistill/loss/sweep_cuda.h"

namespace distill {

bool HasCudaSweep() { return false; }

const char* EnqueueSweep(const GpuSweep&, void*) { return "this build has no CUDA"; }

}  // namespace distill
