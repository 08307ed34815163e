// One update of AdamW (Loshchilov, Hutter 2019, algorithm 2) in one sweep over memory: the gradient is unscaled and
// clipped, the moments and the float32 master are updated and the working copy is rounded, element by element.
//
// The limit is memory: 28 bytes an element, 30 with a working copy. Every CPU gives the same bits, whatever its
// vectors, so ranks that each make the whole update stay alike. Read by nvcc too, so this is plain C++17.
#pragma once

#include <cstdint>

#include "libdistill/core/dtype.h"

namespace distill {

// Elements that lie one after the other in each of these.
struct AdamWRun {
  float* master = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  const float* gradient = nullptr;
  void* working = nullptr;  // takes the new master, rounded to `working_type`; null: the master is all there is
  DType working_type = DType::kBFloat16;  // or kFloat16
  bool decays = true;
  int64_t count = 0;
};

// What one step has for all elements.
struct AdamWFactors {
  float beta1 = 0.9f, beta2 = 0.999f;
  float one_minus_beta1 = 0.1f, one_minus_beta2 = 0.001f;  // rounded once: 1 - beta2 in float32 would lose digits
  float epsilon = 1e-8f;
  float gradient_scale = 1;           // 1 / (tokens * loss scale / clipping factor)
  float step_size = 0;                // learning rate / (1 - beta1^t)
  float inverse_root_correction = 1;  // 1 / sqrt(1 - beta2^t)
  float keep = 1;                     // 1 - learning rate * weight decay, for runs that decay
};

// `step` counts from 1. `divisor`: of the gradients.
AdamWFactors FactorsOf(double beta1, double beta2, double epsilon, double weight_decay, double learning_rate,
                       double divisor, int64_t step);

// One run in host memory, on this thread. No pointer needs more alignment than its type's.
void SweepAdamW(const AdamWRun& run, const AdamWFactors& factors);

// The sweep for each kind of CPU; inside adamw*.cc only. They see no types of other headers: what is compiled for
// AVX-512 must not leave inline functions that the linker could pick for every CPU.
using AdamWFunction = void (*)(const AdamWRun& run, const AdamWFactors& factors);
extern const AdamWFunction kAdamWPlain, kAdamWAvx2, kAdamWAvx512;

}  // namespace distill
