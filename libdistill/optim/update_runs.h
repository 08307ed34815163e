// AdamW over many runs at once, wherever they are.
#pragma once

#include <vector>

#include <c10/core/Device.h>

#include "libdistill/optim/adamw_sweep.h"

namespace distill {

// On the CPU it blocks, with all of torch's threads (their number does not change a bit); on a GPU it is enqueued on
// the current stream. All runs are in memory of `device`. Throws c10::Error: a kernel that did not start, or a GPU in a
// build without CUDA.
void UpdateRuns(const std::vector<AdamWRun>& runs, const AdamWFactors& factors, c10::Device device);

}  // namespace distill
