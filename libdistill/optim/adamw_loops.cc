// The sweep's loop, compiled once for each kind of CPU; the compiler makes the vectors. Additions and products are not
// fused (-ffp-contract=off), so that all of them give the same bits.
#include <cstring>

#include "libdistill/core/vectors.h"
#include "libdistill/optim/adamw_element.h"

namespace distill {
namespace {

// To nearest, ties to even; a NaN stays one.
inline uint16_t ToBFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}

struct NoCopy {
  void operator()(int64_t, float) const {}
};

struct BFloat16Copy {
  uint16_t* __restrict to;
  void operator()(int64_t i, float value) const { to[i] = ToBFloat16(value); }
};

struct Float16Copy {
  _Float16* __restrict to;
  void operator()(int64_t i, float value) const { to[i] = static_cast<_Float16>(value); }
};

template <typename Copy>
void Loop(const AdamWRun& run, const AdamWFactors& f, Copy copy) {
  float* __restrict master = run.master;
  float* __restrict exp_avg = run.exp_avg;
  float* __restrict exp_avg_sq = run.exp_avg_sq;
  const float* __restrict gradient = run.gradient;
  const AdamWFactors factors = f;
  const float keep = run.decays ? f.keep : 1.0f;
  for (int64_t i = 0; i < run.count; ++i) {
    UpdateElement(master[i], exp_avg[i], exp_avg_sq[i], gradient[i], keep, factors);
    copy(i, master[i]);
  }
}

void AdamWLoops(const AdamWRun& run, const AdamWFactors& factors) {
  if (run.working == nullptr) return Loop(run, factors, NoCopy{});
  if (run.working_type == DType::kBFloat16) {
    return Loop(run, factors, BFloat16Copy{static_cast<uint16_t*>(run.working)});
  }
  Loop(run, factors, Float16Copy{static_cast<_Float16*>(run.working)});
}

}  // namespace

const AdamWFunction DISTILL_FOR_ITS_CPU(kAdamW) = AdamWLoops;

}  // namespace distill
