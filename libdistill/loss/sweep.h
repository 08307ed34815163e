// What is done to a token's logits once both models' are there: softmaxes, divergence, cross-entropy, and the gradient
// with respect to the student's logits, in two passes over the vocabulary (three for Jensen-Shannon), for one row at a
// time, which stays in cache in between. docs/losses.md has the formulas; no LibTorch here.
#pragma once

#include <cstdint>

#include "libdistill/core/dtype.h"

namespace distill {

enum class Divergence { kNone, kForwardKl, kReverseKl, kJensenShannon };

// How a head's product x becomes a logit: softcap * tanh(scale * (x + bias) / softcap), or scale * (x + bias) where the
// softcap is 0.
struct HeadOutput {
  const float* bias = nullptr;  // [V] or null
  float scale = 1;
  float softcap = 0;
};

struct SweepOptions {
  int64_t vocabulary = 0;  // V
  Divergence divergence = Divergence::kNone;
  float beta = 0;  // of Jensen-Shannon
  float temperature = 1;
  float alpha = 0;
  bool wants_gradient = true;
  float gradient_scale = 1;  // the gradient is multiplied by it before it is rounded
  HeadOutput student, teacher;
};

struct SweepSums {
  double divergence = 0;  // without T^2
  double ce = 0;
};

// A head's products for one token: [V], float32, bfloat16 or float16.
struct RowOfProducts {
  void* values = nullptr;
  DType dtype = DType::kFloat32;
};

// One token. Where the gradient is wanted, that of alpha * T^2 * divergence + (1 - alpha) * ce with respect to the
// student's products takes their place. `teacher` is not looked at for kNone. `label` lies within the vocabulary, or
// is below 0: ce is then 0, and has no part in the gradient. The same bits on every call; a value that is not finite
// makes the sums so. Arithmetic in float32, sums in float64.
SweepSums SweepRow(RowOfProducts student, RowOfProducts teacher, int64_t label, const SweepOptions& options);

// The sweep for each kind of CPU; inside loss/ only. The loops see no types of other headers: what is compiled for
// AVX-512 must not leave inline functions that the linker could pick for every CPU.
using SweepRowFunction = SweepSums (*)(RowOfProducts student, RowOfProducts teacher, int64_t label,
                                       const SweepOptions& options);
extern const SweepRowFunction kSweepPlain, kSweepAvx2, kSweepAvx512;

}  // namespace distill
