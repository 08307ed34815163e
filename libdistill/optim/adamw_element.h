// The update of one element; inside optim/ only. CPUs and GPUs compile it.
#pragma once

#include "libdistill/optim/adamw_sweep.h"

#if defined(__CUDACC__)
#define DISTILL_HOST_DEVICE __host__ __device__
#else
#define DISTILL_HOST_DEVICE
#endif

namespace distill {

// `keep`: f.keep, or 1 for an element that does not decay.
DISTILL_HOST_DEVICE inline void UpdateElement(float& master, float& exp_avg, float& exp_avg_sq, float gradient,
                                              float keep, const AdamWFactors& f) {
  const float g = gradient * f.gradient_scale;
  exp_avg = f.beta1 * exp_avg + f.one_minus_beta1 * g;
  exp_avg_sq = f.beta2 * exp_avg_sq + f.one_minus_beta2 * g * g;
  const float root = __builtin_sqrtf(exp_avg_sq) * f.inverse_root_correction;
  master = keep * master - f.step_size * exp_avg / (root + f.epsilon);
}

}  // namespace distill
