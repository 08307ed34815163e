// What a GPU's threads do in one launch, one thread after the other on the CPU.
#pragma once

#include "libdistill/optim/adamw_cuda.h"

namespace distill::testing {

void UpdateAsThreads(const AdamWLaunch& launch, int threads);

}  // namespace distill::testing
