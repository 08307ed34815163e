// What is done to a token's logits once both models' are there: softmaxes, divergence, cross-entropy, and the gradient
// with respect to the student's logits, in two passes over the vocabulary (three where the gradient of a token depends
// on the row's other tokens), for one row at a time, which stays in cache in between. docs/losses.md has the formulas;
// no LibTorch here.
#pragma once

#include <cstdint>

#include "libdistill/core/dtype.h"
#include "libdistill/loss/divergence.h"

namespace distill {

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
  float beta = 0;     // of Jensen-Shannon
  float skew = 0;     // of the skewed ones
  int64_t top_k = 0;  // of kTopKKl: at least 1, and at most kMostTopK
  float temperature = 1;
  float alpha = 0;
  bool wants_gradient = true;
  float gradient_scale = 1;  // the gradient is multiplied by it before it is rounded
  HeadOutput student, teacher;
};

// So far below a token's largest logit, in temperatures, are those of what a teacher of top-k values does not name:
// their powers are 0 in float64, and the least that there is in float32 (2^-126 in the CPU's loops), whose products are
// far below what sums can show.
constexpr double kUnnamed = 1000;

struct SweepSums {
  double divergence = 0;  // without T^2
  double ce = 0;
};

// A head's products for one token: [V], float32, bfloat16 or float16.
struct RowOfProducts {
  void* values = nullptr;
  DType dtype = DType::kFloat32;
  // For kTopKKl, of a teacher that gives top-k values: the logarithm of the probability of all tokens that it does not
  // name, in the units of its values.
  const float* tail = nullptr;
};

// One token. Where the gradient is wanted, that of alpha * T^2 * divergence + (1 - alpha) * ce with respect to the
// student's products takes their place. `teacher` is not looked at for kNone. `label` lies within the vocabulary, or
// is below 0: ce is then 0, and has no part in the gradient. The same bits on every call; a value that is not finite
// makes the sums so. Arithmetic in float32, sums in float64; on GPUs terms are added by fours in float32 first.
SweepSums SweepRow(RowOfProducts student, RowOfProducts teacher, int64_t label, const SweepOptions& options);

// The sweep for each kind of CPU; inside loss/ only. The loops see no types of other headers: what is compiled for
// AVX-512 must not leave inline functions that the linker could pick for every CPU.
using SweepRowFunction = SweepSums (*)(RowOfProducts student, RowOfProducts teacher, int64_t label,
                                       const SweepOptions& options);
extern const SweepRowFunction kSweepPlain, kSweepAvx2, kSweepAvx512;

}  // namespace distill
