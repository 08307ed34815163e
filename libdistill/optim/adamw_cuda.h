// The sweep on a GPU; inside optim/ only, and read by nvcc too, so it is plain C++17.
#pragma once

#include <cstdint>

#include "libdistill/optim/adamw_sweep.h"

namespace distill {

// What one launch takes: kernel arguments have 4 KiB.
constexpr int kRunsOfLaunch = 48;
// Elements that one block of threads takes of a run.
constexpr int64_t kElementsOfBlock = 8192;

struct AdamWLaunch {
  AdamWRun runs[kRunsOfLaunch];
  int64_t first_block[kRunsOfLaunch + 1] = {};  // of each run; the last one is the number of all blocks
  int num_runs = 0;
  AdamWFactors factors;
};

// Takes as many of `runs`, from `next` on, as go into one launch, and moves `next` past them.
AdamWLaunch NextLaunch(const AdamWRun* runs, int64_t num_runs, int64_t& next, const AdamWFactors& factors);

// Enqueues it on `stream` (a cudaStream_t) of the current device. Null, or why the kernel did not start.
const char* EnqueueAdamW(const AdamWLaunch& launch, void* stream);

}  // namespace distill
