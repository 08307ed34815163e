// One set of loops for one kind of CPU; internal to reduce*.cc. No types of other headers here: what is compiled for
// AVX-512 must not leave inline functions that the linker could pick for every CPU.
#pragma once

#include <cstdint>

namespace distill {

// outs[k][i] = sources[0][i] op sources[1][i] op ..., for every k; past the caches for k below `streamed`, where the
// CPU can.
using ReduceLoop = void (*)(void* const* outs, int out_count, const void* const* sources, int source_count,
                            int64_t count, int divisor, int streamed);

constexpr int kReduceTypes = 7;  // in the order of DType
constexpr int kReduceOps = 4;    // sum, min, max, product

struct ReduceTable {
  ReduceLoop loops[kReduceTypes][kReduceOps];
  void (*widen_half)(const uint16_t* in, float* out, int64_t count);
  void (*widen_bfloat)(const uint16_t* in, float* out, int64_t count);
  void (*narrow_half)(const float* in, uint16_t* out, int64_t count);
  void (*narrow_bfloat)(const float* in, uint16_t* out, int64_t count);
  void (*copy)(const void* from, void* to, int64_t bytes, bool stream);
};

extern const ReduceTable kReducePlain;
extern const ReduceTable kReduceAvx2;
extern const ReduceTable kReduceAvx512;

}  // namespace distill
