// Which elements dropout drops, for loops that are compiled for several kinds of CPU (core/vector_math.h); inside nn/
// only.
#pragma once

#include <cstdint>

#include "libdistill/core/threefry.h"
#include "libdistill/nn/dropping.h"

namespace distill {
namespace {

// What each element of a block is multiplied by: 0 or the scale. A counter gives four words and each of these decides
// about two elements; 16 counters are a block, whatever the width of vectors is, so that every CPU drops the same.
inline void FillDropFactors(const Dropping& dropping, uint64_t block, float factors[kDropBlock]) {
  const uint32_t key[4] = {static_cast<uint32_t>(dropping.seed), static_cast<uint32_t>(dropping.seed >> 32), 0, 0};
  BitVector lane;
  for (int64_t i = 0; i < kWidth; ++i) lane[i] = static_cast<uint32_t>(i);
  const IntVector scale = BitCast<IntVector>(FloatVector{} + dropping.scale);
  for (int64_t first = 0; first < 16; first += kWidth) {
    BitVector words[4] = {lane + static_cast<uint32_t>(first), BitVector{} + static_cast<uint32_t>(block),
                          BitVector{} + static_cast<uint32_t>(block >> 32), BitVector{}};
    Threefry(key, words);
    for (int64_t word = 0; word < 4; ++word) {
      float* low = factors + word * 32 + first;
      Store(low, BitCast<FloatVector>(((words[word] & 0xffff) >= dropping.threshold) & scale));
      Store(low + 16, BitCast<FloatVector>(((words[word] >> 16) >= dropping.threshold) & scale));
    }
  }
}

}  // namespace
}  // namespace distill
