// One thread's part of a launch; compiled for the host as well, where a test compares it with the CPU's loops.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "libdistill/optim/adamw_cuda.h"
#include "libdistill/optim/adamw_element.h"

namespace distill {

// The run that a block works for: the last one that begins at or before it.
inline __host__ __device__ int RunOfBlock(const AdamWLaunch& launch, int64_t block) {
  int low = 0, high = launch.num_runs - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (launch.first_block[middle] <= block) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Every threads-th element of the block's part, from `thread` on.
inline __host__ __device__ void UpdateAsThread(const AdamWLaunch& launch, int64_t block, int thread, int threads) {
  const int r = RunOfBlock(launch, block);
  const AdamWRun& run = launch.runs[r];
  const int64_t begin = (block - launch.first_block[r]) * kElementsOfBlock;
  const int64_t end = begin + kElementsOfBlock < run.count ? begin + kElementsOfBlock : run.count;
  const float keep = run.decays ? launch.factors.keep : 1.0f;
  for (int64_t i = begin + thread; i < end; i += threads) {
    float master = run.master[i], exp_avg = run.exp_avg[i], exp_avg_sq = run.exp_avg_sq[i];
    UpdateElement(master, exp_avg, exp_avg_sq, run.gradient[i], keep, launch.factors);
    run.master[i] = master;
    run.exp_avg[i] = exp_avg;
    run.exp_avg_sq[i] = exp_avg_sq;
    if (run.working == nullptr) continue;
    if (run.working_type == DType::kBFloat16) {
      static_cast<__nv_bfloat16*>(run.working)[i] = __float2bfloat16_rn(master);
    } else {
      static_cast<__half*>(run.working)[i] = __float2half_rn(master);
    }
  }
}

}  // namespace distill
