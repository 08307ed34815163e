// Elements of 16 bits and the float32 that they are accumulated in, a block at a time; for reduce_loops.cc alone. In an
// unnamed namespace and without other headers' functions, as all that is compiled for several kinds of CPU
// (reduce_table.h).
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace distill {
namespace {

union Bits {
  float f;
  uint32_t u;
};

inline float WidenBFloat(uint16_t x) {
  Bits bits;
  bits.u = static_cast<uint32_t>(x) << 16;
  return bits.f;
}

inline uint16_t NarrowBFloat(float x) {
  Bits bits;
  bits.f = x;
  const uint32_t rounded = (bits.u + 0x7fff + ((bits.u >> 16) & 1)) >> 16;
  const uint32_t nan = (bits.u >> 16) | 0x40;
  return static_cast<uint16_t>((bits.u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

// Without branches, after F. Giesen, "half to float done quic" and "float to half".
inline float WidenHalf(uint16_t x) {
  constexpr uint32_t kExponent = 0x7c00 << 13;
  constexpr uint32_t kSmallest = 113 << 23;
  const uint32_t shifted = static_cast<uint32_t>(x & 0x7fff) << 13;
  const uint32_t exponent = shifted & kExponent;
  Bits normal, subnormal, magic;
  normal.u = shifted + ((127 - 15) << 23) + (exponent == kExponent ? (128 - 16) << 23 : 0);
  subnormal.u = shifted + kSmallest;
  magic.u = kSmallest;
  subnormal.f -= magic.f;
  Bits result;
  result.u = (exponent == 0 ? subnormal.u : normal.u) | (static_cast<uint32_t>(x & 0x8000) << 16);
  return result.f;
}

inline uint16_t NarrowHalf(float x) {
  constexpr uint32_t kInfinity = 255 << 23;
  constexpr uint32_t kOverflow = (127 + 16) << 23;
  constexpr uint32_t kSmallestNormal = 113 << 23;
  Bits bits;
  bits.f = x;
  const uint32_t sign = bits.u & 0x80000000;
  const uint32_t magnitude = bits.u ^ sign;
  Bits subnormal, magic;
  magic.u = ((127 - 15) + (23 - 10) + 1) << 23;
  subnormal.u = magnitude;
  subnormal.f += magic.f;
  const uint32_t small = subnormal.u - magic.u;
  const uint32_t normal = (magnitude + (static_cast<uint32_t>(15 - 127) << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const uint32_t large = magnitude > kInfinity ? 0x7e00 : 0x7c00;
  const uint32_t result = magnitude >= kOverflow ? large : magnitude < kSmallestNormal ? small : normal;
  return static_cast<uint16_t>(result | (sign >> 16));
}

struct BFloat {
  using Stored = uint16_t;
  using Sum = float;
  static void Widen(const uint16_t* in, float* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = WidenBFloat(in[i]);
  }
  static void Narrow(const float* in, uint16_t* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = NarrowBFloat(in[i]);
  }
};

struct Half {
  using Stored = uint16_t;
  using Sum = float;
  static void Widen(const uint16_t* in, float* out, int64_t count) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
      _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
    }
#endif
    for (; i < count; ++i) out[i] = WidenHalf(in[i]);
  }
  static void Narrow(const float* in, uint16_t* out, int64_t count) {
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
      const __m128i narrow = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), narrow);
    }
#endif
    for (; i < count; ++i) out[i] = NarrowHalf(in[i]);
  }
};

}  // namespace
}  // namespace distill
