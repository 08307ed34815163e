// What dropout drops of a tensor; inside nn/ only.
#pragma once

#include <cstdint>

namespace distill {

// Each element with the same probability, by a random number of `seed` and the element's place, so that the backward
// pass knows it again without a mask. Elements are counted in blocks of kDropBlock.
struct Dropping {
  uint64_t seed = 0;
  uint32_t threshold = 0;  // the probability, in parts of 2^16
  float scale = 1;         // of what is kept: 1 / (1 - probability)
};

constexpr int64_t kDropBlock = 128;

}  // namespace distill
