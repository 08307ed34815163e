// The loops, written so that the compiler turns them into vector code; compiled once for each kind of CPU. All but what
// reduce_table.h declares is in an unnamed namespace, for the reason given there.
//
// A block of 1,024 elements is accumulated in a buffer on the stack, which stays in the first-level cache, so each
// source is read once and the result is written once, whatever the number of sources.
//
// Copies are loops of vectors too: memcpy takes "rep movsb" for what does not fit the caches, which falls to a
// sixteenth of its speed on Zen 3 and 4 where the target lies a little further on in its page than the source.
#include <cstdint>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "libdistill/comm/reduce_table.h"
#include "libdistill/core/vectors.h"

namespace distill {
namespace {

constexpr int64_t kBlock = 1024;

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

// What is stored, what is accumulated, and the way there and back, a block at a time.
template <typename T>
struct Plain {
  using Stored = T;
  using Sum = T;
};

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

// Signed overflow is undefined, unsigned overflow wraps.
template <typename T, bool = std::is_integral<T>::value>
struct Wrapping {
  using Type = T;
};
template <typename T>
struct Wrapping<T, true> {
  using Type = typename std::make_unsigned<T>::type;
};

struct Sum {
  template <typename T>
  static T Apply(T a, T b) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};
struct Product {
  template <typename T>
  static T Apply(T a, T b) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};
struct Min {
  template <typename T>
  static T Apply(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  static T Apply(T a, T b) {
    return a < b ? b : a;
  }
};

// sum = sum op source, for one block; `widened` is space for narrow types.
template <typename Element, typename Op>
inline void Accumulate(typename Element::Sum* sum, const typename Element::Stored* source, int64_t count,
                       typename Element::Sum* widened) {
  using T = typename Element::Sum;
  if constexpr (std::is_same<T, typename Element::Stored>::value) {
    (void)widened;
    for (int64_t i = 0; i < count; ++i) sum[i] = Op::template Apply<T>(sum[i], source[i]);
  } else {
    Element::Widen(source, widened, count);
    for (int64_t i = 0; i < count; ++i) sum[i] = Op::template Apply<T>(sum[i], widened[i]);
  }
}

// Two sources of a type that is not widened: one sweep without a block in between. Outputs may be the sources, element
// by element, which does not hinder vectors.
template <typename T, typename Op, bool kTwo, bool kDivide>
inline void Sweep(void* const* outs, const void* const* sources, int64_t count, int divisor) {
  const T* a = static_cast<const T*>(sources[0]);
  const T* b = static_cast<const T*>(sources[1]);
  T* first = static_cast<T*>(outs[0]);
  T* second = static_cast<T*>(outs[kTwo ? 1 : 0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    T value = Op::template Apply<T>(a[i], b[i]);
    if constexpr (kDivide) value = static_cast<T>(value / static_cast<T>(divisor));
    first[i] = value;
    if constexpr (kTwo) second[i] = value;
  }
}

#if defined(__AVX512F__)
using Vector = __m512i;
inline Vector Load(const char* from) { return _mm512_loadu_si512(from); }
inline void Store(char* to, Vector value) { _mm512_storeu_si512(to, value); }
inline void Stream(char* to, Vector value) { _mm512_stream_si512(reinterpret_cast<__m512i*>(to), value); }
#elif defined(__AVX2__)
using Vector = __m256i;
inline Vector Load(const char* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
inline void Store(char* to, Vector value) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value); }
inline void Stream(char* to, Vector value) { _mm256_stream_si256(reinterpret_cast<__m256i*>(to), value); }
#elif defined(__x86_64__)
using Vector = __m128i;
inline Vector Load(const char* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
inline void Store(char* to, Vector value) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), value); }
inline void Stream(char* to, Vector value) { _mm_stream_si128(reinterpret_cast<__m128i*>(to), value); }
#endif

#if defined(__x86_64__)
// Four vectors at a time; `to` is aligned when they are streamed.
template <bool kStream>
inline int64_t CopyVectors(const char* from, char* to, int64_t bytes) {
  constexpr int64_t kVector = sizeof(Vector);
  int64_t i = 0;
  for (; i + 4 * kVector <= bytes; i += 4 * kVector) {
    const Vector a = Load(from + i), b = Load(from + i + kVector);
    const Vector c = Load(from + i + 2 * kVector), d = Load(from + i + 3 * kVector);
    kStream ? Stream(to + i, a) : Store(to + i, a);
    kStream ? Stream(to + i + kVector, b) : Store(to + i + kVector, b);
    kStream ? Stream(to + i + 2 * kVector, c) : Store(to + i + 2 * kVector, c);
    kStream ? Stream(to + i + 3 * kVector, d) : Store(to + i + 3 * kVector, d);
  }
  return i;
}

inline void Copy(const void* source, void* target, int64_t bytes, bool stream) {
  const char* from = static_cast<const char*>(source);
  char* to = static_cast<char*>(target);
  int64_t done = 0;
  if (stream) {
    const int64_t off = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % sizeof(Vector));
    const int64_t head = off == 0 ? 0 : static_cast<int64_t>(sizeof(Vector)) - off;
    done = head < bytes ? head : bytes;
    __builtin_memcpy(to, from, static_cast<unsigned long>(done));
    done += CopyVectors<true>(from + done, to + done, bytes - done);
  } else {
    done = CopyVectors<false>(from, to, bytes);
  }
  __builtin_memcpy(to + done, from + done, static_cast<unsigned long>(bytes - done));
}

// Streamed stores are seen before what is published next.
inline void FinishStreams() { _mm_sfence(); }
#else
inline void Copy(const void* from, void* to, int64_t bytes, bool) {
  __builtin_memcpy(to, from, static_cast<unsigned long>(bytes));
}
inline void FinishStreams() {}
#endif

void CopyAll(const void* from, void* to, int64_t bytes, bool stream) {
  Copy(from, to, bytes, stream);
  if (stream) FinishStreams();
}

// Begins a block of a sum with one source or, where nothing has to be widened, with two; returns with how many.
template <typename Element, typename Op>
inline int BeginBlock(typename Element::Sum* sum, const void* const* sources, int source_count, int64_t begin,
                      int64_t count) {
  using Stored = typename Element::Stored;
  using T = typename Element::Sum;
  const Stored* first = static_cast<const Stored*>(sources[0]) + begin;
  if constexpr (std::is_same<T, Stored>::value) {
    if (source_count > 1) {
      const Stored* second = static_cast<const Stored*>(sources[1]) + begin;
      for (int64_t i = 0; i < count; ++i) sum[i] = Op::template Apply<T>(first[i], second[i]);
      return 2;
    }
    Copy(first, sum, count * static_cast<int64_t>(sizeof(T)), false);
  } else {
    Element::Widen(first, sum, count);
  }
  return 1;
}

template <typename Element, typename Op>
void Loop(void* const* outs, int out_count, const void* const* sources, int source_count, int64_t count, int divisor,
          int streamed) {
  using Stored = typename Element::Stored;
  using T = typename Element::Sum;
  constexpr bool kSame = std::is_same<T, Stored>::value;
  if constexpr (kSame) {
    if (source_count == 2 && out_count <= 2 && streamed == 0) {
      const auto sweep = out_count == 2 ? (divisor > 1 ? &Sweep<T, Op, true, true> : &Sweep<T, Op, true, false>)
                                        : (divisor > 1 ? &Sweep<T, Op, false, true> : &Sweep<T, Op, false, false>);
      return sweep(outs, sources, count, divisor);
    }
  }
  alignas(64) T sum[kBlock];
  alignas(64) T widened[kSame ? 1 : kBlock];
  [[maybe_unused]] alignas(64) Stored narrowed[kSame ? 1 : kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = count - begin < kBlock ? count - begin : kBlock;
    const int taken = BeginBlock<Element, Op>(sum, sources, source_count, begin, length);
    for (int s = taken; s < source_count; ++s) {
      Accumulate<Element, Op>(sum, static_cast<const Stored*>(sources[s]) + begin, length, widened);
    }
    if (divisor > 1) {
      for (int64_t i = 0; i < length; ++i) sum[i] = static_cast<T>(sum[i] / static_cast<T>(divisor));
    }
    const Stored* result = nullptr;
    if constexpr (kSame) {
      result = sum;
    } else {
      Element::Narrow(sum, narrowed, length);
      result = narrowed;
    }
    for (int o = 0; o < out_count; ++o) {
      Copy(result, static_cast<Stored*>(outs[o]) + begin, length * static_cast<int64_t>(sizeof(Stored)), o < streamed);
    }
  }
  if (streamed > 0) FinishStreams();
}

#define DISTILL_REDUCE_ROW(Element) \
  { &Loop<Element, Sum>, &Loop<Element, Min>, &Loop<Element, Max>, &Loop<Element, Product> }

constexpr ReduceTable kLoops = {
    {DISTILL_REDUCE_ROW(Plain<float>), DISTILL_REDUCE_ROW(Plain<double>), DISTILL_REDUCE_ROW(Half),
     DISTILL_REDUCE_ROW(BFloat), DISTILL_REDUCE_ROW(Plain<int32_t>), DISTILL_REDUCE_ROW(Plain<int64_t>),
     DISTILL_REDUCE_ROW(Plain<uint8_t>)},
    &Half::Widen,
    &BFloat::Widen,
    &Half::Narrow,
    &BFloat::Narrow,
    &CopyAll};

}  // namespace

const ReduceTable DISTILL_FOR_ITS_CPU(kReduce) = kLoops;

}  // namespace distill
