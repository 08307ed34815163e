// Vectors of float32 as wide as the CPU that a file is compiled for, and functions of them: for loops that are compiled
// for several kinds of CPU (core/vectors.h), and for nothing else. Each is a template over the vector and float itself,
// which takes what a whole vector is too long for. Everything is in an unnamed namespace: what is compiled for AVX-512
// must not leave inline functions that the linker could pick for every CPU.
#pragma once

#include <cmath>
#include <cstdint>
#if defined(__SSE__)
#include <immintrin.h>
#endif

namespace distill {
namespace {

constexpr float kLog2E = 1.44269504088896341f;
constexpr double kLn2 = 0.69314718055994530942;

#if defined(__AVX512F__)
constexpr int64_t kWidth = 16;
#elif defined(__AVX2__)
constexpr int64_t kWidth = 8;
#else
constexpr int64_t kWidth = 4;
#endif
typedef float FloatVector __attribute__((vector_size(kWidth * 4)));
typedef int32_t IntVector __attribute__((vector_size(kWidth * 4)));
typedef uint32_t BitVector __attribute__((vector_size(kWidth * 4)));
typedef uint16_t HalfVector __attribute__((vector_size(kWidth * 2)));

template <typename V>
struct IntsOf {
  using type = IntVector;
};
template <>
struct IntsOf<float> {
  using type = int32_t;
};
template <typename V>
using Ints = typename IntsOf<V>::type;

template <typename To, typename From>
inline To BitCast(From from) {
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

template <typename V>
inline V Load(const float* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

template <typename V>
inline void Store(float* to, V value) {
  __builtin_memcpy(to, &value, sizeof(value));
}

// b where either is NaN, as the instruction has it.
inline float Larger(float a, float b) { return a > b ? a : b; }
inline FloatVector Larger(FloatVector a, FloatVector b) {
#if defined(__AVX512F__)
  return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#elif defined(__SSE__)
  return _mm_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}

// Of bfloat16; to nearest, ties to even, and NaN stays.
template <typename V>
inline V Load(const uint16_t* from) {
  if constexpr (sizeof(V) == sizeof(float)) {
    return BitCast<float>(static_cast<uint32_t>(*from) << 16);
  } else {
    HalfVector halves;
    __builtin_memcpy(&halves, from, sizeof(halves));
    return BitCast<V>(__builtin_convertvector(halves, BitVector) << 16);
  }
}

inline void Store(uint16_t* to, float value) {
  const uint32_t bits = BitCast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, nan = (bits >> 16) | 0x40;
  *to = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

inline void Store(uint16_t* to, FloatVector values) {
  const BitVector bits = BitCast<BitVector>(values);
  const BitVector rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, nan = (bits >> 16) | 0x40;
  const HalfVector halves = __builtin_convertvector((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded, HalfVector);
  __builtin_memcpy(to, &halves, sizeof(halves));
}

// As std::min and its like, which may leave functions of their own behind.
inline int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
template <typename T>
inline void Copy(const T* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

// f(vector or float, i) for all of 0 .. count; only the first argument's type matters.
template <typename F>
inline void ForEach(int64_t count, F&& f) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) f(FloatVector{}, i);
  for (; i < count; ++i) f(0.0f, i);
}

// A sum over a block: float32 in each lane, float64 across.
class Sum {
 public:
  void Add(FloatVector values) { lanes_ += values; }
  void Add(float value) { lanes_[0] += value; }
  double Total() const {
    double total = 0;
    for (int64_t i = 0; i < kWidth; ++i) total += lanes_[i];
    return total;
  }

 private:
  FloatVector lanes_ = {};
};

inline float Largest(const float* values, int64_t count) {
  FloatVector lanes = FloatVector{} - INFINITY;
  ForEach(count, [&](auto v, int64_t i) {
    const auto x = Load<decltype(v)>(values + i);
    if constexpr (sizeof(x) == sizeof(float)) {
      lanes[0] = Larger(x, lanes[0]);
    } else {
      lanes = Larger(x, lanes);
    }
  });
  float largest = lanes[0];
  for (int64_t i = 1; i < kWidth; ++i) largest = Larger(lanes[i], largest);
  return largest;
}

// 2^x within 2 units in the last place for x <= 127; what is below 2^-126 becomes 2^-126, and NaN stays. The polynomial
// of 2^f on [-1/2, 1/2] is the one with the least greatest relative error, 9.2e-8, among those that are exact at 0.
template <typename V>
inline V Exp2(V x) {
  const V lowest = V{} - 126.0f;
  x = Larger(lowest, x);
  const float rounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, in the low bits
  const V shifted = x + rounder, f = x - (shifted - rounder);
  V y = V{} + 1.3264708771e-3f;
  y = y * f + 9.6715114663e-3f;
  y = y * f + 5.5507337765e-2f;
  y = y * f + 2.4022242104e-1f;
  y = y * f + 6.9314697759e-1f;
  y = y * f + 1.0f;
  const Ints<V> power = (BitCast<Ints<V>>(shifted) << 23) + 0x3f800000;
  return y * BitCast<V>(power);
}

// 1 / (1 + e^-x), from the power that cannot overflow.
template <typename V>
inline V Sigmoid(V x) {
  const V magnitude = x < 0 ? -x : x, e = Exp2(-kLog2E * magnitude), inverse = 1.0f / (1.0f + e);
  return x < 0 ? e * inverse : inverse;
}

// log2 x for normal x > 0, within 2^-23 of its value or of 1 (the polynomial is that of Cephes, logf.c).
template <typename V>
inline V Log2(V x) {
  const Ints<V> bits = BitCast<Ints<V>>(x);
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)).
  const Ints<V> e = (bits - 0x3f3504f3) >> 23;
  const V m = BitCast<V>(bits - (e << 23)), f = m - 1.0f, z = f * f;
  V exponent;
  if constexpr (sizeof(V) == sizeof(float)) {
    exponent = static_cast<float>(e);
  } else {
    exponent = __builtin_convertvector(e, V);
  }
  V y = V{} + 7.0376836292e-2f;
  y = y * f - 1.1514610310e-1f;
  y = y * f + 1.1676998740e-1f;
  y = y * f - 1.2420140846e-1f;
  y = y * f + 1.4249322787e-1f;
  y = y * f - 1.6668057665e-1f;
  y = y * f + 2.0000714765e-1f;
  y = y * f - 2.4999993993e-1f;
  y = y * f + 3.3333331174e-1f;
  y = y * f * z - 0.5f * z;
  return (f + y) * kLog2E + exponent;
}

// (1 - e^-2|x|) / (1 + e^-2|x|), with the sign of x; absolute error 2^-23.
template <typename V>
inline V Tanh(V x) {
  const V magnitude = x < 0 ? -x : x, e = Exp2((-2 * kLog2E) * magnitude), y = (1.0f - e) / (1.0f + e);
  return x < 0 ? -y : y;
}

// Whether all are below the limit; false where one is NaN.
inline bool AllBelow(float x, float limit) { return x < limit; }
inline bool AllBelow(FloatVector x, float limit) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(x, FloatVector{} + limit, _CMP_LT_OQ) == 0xffff;
#elif defined(__AVX2__)
  return _mm256_movemask_ps(_mm256_cmp_ps(x, FloatVector{} + limit, _CMP_LT_OQ)) == 0xff;
#else
  bool all = true;
  for (int64_t i = 0; i < kWidth; ++i) all = all && x[i] < limit;
  return all;
#endif
}

// As Tanh, in half the time where all |x| are below 0.625, as they mostly are under a cap: there the odd polynomial of
// Cephes (tanhf.c), relative error 2^-22.
template <typename V>
inline V TanhNearZero(V x) {
  if (!AllBelow(x < 0 ? -x : x, 0.625f)) return Tanh(x);
  const V z = x * x;
  V y = V{} - 5.70498872745e-3f;
  y = y * z + 2.06390887954e-2f;
  y = y * z - 5.37397155531e-2f;
  y = y * z + 1.33314422036e-1f;
  y = y * z - 3.33332819422e-1f;
  return y * z * x + x;
}

inline void WidenBFloats(const uint16_t* from, float* to, int64_t count) {
  ForEach(count, [&](auto v, int64_t i) { Store(to + i, Load<decltype(v)>(from + i)); });
}

inline void WidenHalfs(const uint16_t* from, float* to, int64_t count) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    __m128i halves;
    __builtin_memcpy(&halves, from + i, sizeof(halves));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
#endif
  for (; i < count; ++i) to[i] = static_cast<float>(BitCast<_Float16>(from[i]));
}

// To nearest, ties to even; what is too large becomes infinite, NaN stays.
inline void NarrowHalfs(const float* from, uint16_t* to, int64_t count) {
  int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    __builtin_memcpy(to + i, &halves, sizeof(halves));
  }
#endif
  for (; i < count; ++i) to[i] = BitCast<uint16_t>(static_cast<_Float16>(from[i]));
}

inline void NarrowBFloats(const float* from, uint16_t* to, int64_t count) {
  ForEach(count, [&](auto v, int64_t i) { Store(to + i, Load<decltype(v)>(from + i)); });
}

}  // namespace
}  // namespace distill
