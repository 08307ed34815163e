// The loops, written so that the compiler turns them into vector code; compiled once for each kind of CPU. All but what
// reduce_table.h declares is in an unnamed namespace, for the reason given there.
//
// A block of 1,024 elements is accumulated in a buffer on the stack, which stays in the first-level cache, so each
// source is read once and the result is written once, whatever the number of sources.
#include <cstdint>
#include <type_traits>

#include "libdistill/comm/copy_loops.h"
#include "libdistill/comm/narrow_elements.h"
#include "libdistill/comm/reduce_table.h"
#include "libdistill/core/vectors.h"

namespace distill {
namespace {

constexpr int64_t kBlock = 1024;

// What is stored and what is accumulated; narrow_elements.h has those that differ.
template <typename T>
struct Plain {
  using Stored = T;
  using Sum = T;
};

// Signed overflow is undefined, unsigned overflow wraps.
template <typename T>
using Wrapping =
    typename std::conditional<std::is_integral<T>::value, std::make_unsigned<T>, std::remove_cv<T>>::type::type;

// The divisor is never narrowed to the type: 256 ranks would be 0 in a uint8.
template <typename T>
inline T Divided(T sum, int divisor) {
  using Wide = typename std::conditional<(sizeof(T) < sizeof(int)), int, T>::type;
  return static_cast<T>(static_cast<Wide>(sum) / static_cast<Wide>(divisor));
}

struct Sum {
  template <typename T>
  static T Apply(T a, T b) {
    using W = Wrapping<T>;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};
struct Product {
  template <typename T>
  static T Apply(T a, T b) {
    using W = Wrapping<T>;
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
    if constexpr (kDivide) value = Divided(value, divisor);
    first[i] = value;
    if constexpr (kTwo) second[i] = value;
  }
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
      for (int64_t i = 0; i < length; ++i) sum[i] = Divided(sum[i], divisor);
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
