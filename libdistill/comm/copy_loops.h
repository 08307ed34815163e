// Copies by vectors, through the caches or past them; for reduce_loops.cc alone. In an unnamed namespace and without
// other headers' functions, as all that is compiled for several kinds of CPU (reduce_table.h).
//
// memcpy takes "rep movsb" for what does not fit the caches, which falls to a sixteenth of its speed on Zen 3 and 4
// where the target lies a little further on in its page than the source.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace distill {
namespace {

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

}  // namespace
}  // namespace distill
