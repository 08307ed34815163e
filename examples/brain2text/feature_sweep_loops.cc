// The loops of feature_sweep.h, compiled once for each kind of CPU.
#include <cstdint>

#include "examples/brain2text/feature_sweep.h"
#include "libdistill/core/vector_math.h"
#include "libdistill/core/vectors.h"

namespace distill {
namespace {

// Sums as the tensor operations do: the middle first, then what is next to it on either side.
void Smooth(const SmoothedBins& s, int64_t begin, int64_t end) {
  const int64_t middle = s.size / 2;
  for (int64_t bin = begin; bin < end; ++bin) {
    const float* input = s.input + bin * s.features;
    float* output = s.output + bin * s.features;
    const int64_t before = Smaller(middle, bin), after = Smaller(middle, s.bins - 1 - bin);
    ForEach(s.features, [&](auto v, int64_t i) {
      using V = decltype(v);
      V sum = Load<V>(input + i) * s.weights[middle];
      for (int64_t k = 1; k <= middle; ++k) {
        if (k <= before) sum += Load<V>(input + i - k * s.features) * s.weights[middle + k];
        if (k <= after) sum += Load<V>(input + i + k * s.features) * s.weights[middle + k];
      }
      Store(output + i, sum);
    });
  }
}

template <typename V>
V OnePlusMagnitude(V x) {
  return 1.0f + (x < 0 ? -x : x);
}

// T is float, or uint16_t for bfloat16.
template <typename T>
void Softsign(const SoftsignElements& e, int64_t begin, int64_t end) {
  const T* input = static_cast<const T*>(e.input) + begin;
  T* output = static_cast<T*>(e.output) + begin;
  ForEach(end - begin, [&](auto v, int64_t i) {
    const auto x = Load<decltype(v)>(input + i);
    Store(output + i, x / OnePlusMagnitude(x));
  });
}

template <typename T>
void SoftsignGradient(const SoftsignElements& e, int64_t begin, int64_t end) {
  const T *input = static_cast<const T*>(e.input) + begin, *gradient = static_cast<const T*>(e.gradient) + begin;
  T* output = static_cast<T*>(e.output) + begin;
  ForEach(end - begin, [&](auto v, int64_t i) {
    using V = decltype(v);
    const V divisor = OnePlusMagnitude(Load<V>(input + i));
    Store(output + i, Load<V>(gradient + i) / (divisor * divisor));
  });
}

constexpr FeatureSweeps kLoops = {.smooth = Smooth,
                                  .softsign = {Softsign<float>, Softsign<uint16_t>},
                                  .softsign_gradient = {SoftsignGradient<float>, SoftsignGradient<uint16_t>}};

}  // namespace

const FeatureSweeps DISTILL_FOR_ITS_CPU(kFeatureSweeps) = kLoops;

}  // namespace distill
