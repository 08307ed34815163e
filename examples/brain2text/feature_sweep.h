// What the network does to features beside its matrix products, on CPUs: one sweep over memory each, where tensor
// operations take up to ten. The tensor operations that they stand for are in smoothing.cc and softsign.cc. No LibTorch
// here.
//
// Functions do those of what they number from `begin` to before `end`; parts that do not overlap can go to different
// threads.
#pragma once

#include <cstdint>

namespace distill {

// A recording's bins [T, F], contiguous: output[t] = the sum over k of weights[k] * input[t + k - size / 2], zeros
// beyond both ends.
struct SmoothedBins {
  const float* input = nullptr;
  float* output = nullptr;
  int64_t bins = 0;      // T
  int64_t features = 0;  // F
  const float* weights = nullptr;
  int64_t size = 0;  // odd
};

// y = x / (1 + |x|), element by element, or the gradient of x from that of y: gradient / (1 + |x|)^2. Of one type,
// float32 or bfloat16; arithmetic is float32.
struct SoftsignElements {
  const void* input = nullptr;     // x
  const void* gradient = nullptr;  // of y, for softsign_gradient
  void* output = nullptr;
};

// The loops for one kind of CPU.
struct FeatureSweeps {
  void (*smooth)(const SmoothedBins& bins, int64_t begin, int64_t end);               // of bins
  void (*softsign[2])(const SoftsignElements& elements, int64_t begin, int64_t end);  // of float32, of bfloat16
  void (*softsign_gradient[2])(const SoftsignElements& elements, int64_t begin, int64_t end);
};
const FeatureSweeps& FeatureSweepsOfThisCpu();

// Inside feature_sweep*.cc only, which see no types of other headers: see core/vector_math.h.
extern const FeatureSweeps kFeatureSweepsPlain, kFeatureSweepsAvx2, kFeatureSweepsAvx512;

}  // namespace distill
