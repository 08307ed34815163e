// Random words from a counter, for loops that are compiled for several kinds of CPU (core/vector_math.h): Threefry-4x32
// with 13 rounds, the fewest that Random123 gives known answers for (Salmon, Moraes, Dror, Shaw 2011, "Parallel Random
// Numbers: As Easy as 1, 2, 3"; 12 pass every test of BigCrush). It adds, rotates and xors, which every vector unit
// does; what it gives depends on key and counter alone, so a backward pass draws again what the forward pass drew.
#pragma once

#include <cstdint>

#include "libdistill/core/vector_math.h"

namespace distill {
namespace {

template <typename Words>
inline Words RotatedLeft(Words x, int bits) {
  return (x << bits) | (x >> (32 - bits));
}

// words[0..3]: a counter, and then what it becomes under `key`. Words is uint32_t or a vector of them.
template <typename Words>
inline void Threefry(const uint32_t key[4], Words words[4]) {
  constexpr int kRounds = 13;
  constexpr int kRotations[8][2] = {{10, 26}, {11, 21}, {13, 27}, {23, 5}, {6, 20}, {17, 11}, {25, 10}, {18, 20}};
  const uint32_t keys[5] = {key[0], key[1], key[2], key[3], 0x1bd11bda ^ key[0] ^ key[1] ^ key[2] ^ key[3]};
  for (int i = 0; i < 4; ++i) words[i] += keys[i];
#pragma GCC unroll 13
  for (int round = 0; round < kRounds; ++round) {
    // The second word of each pair changes places from round to round.
    const int one = round % 2 == 0 ? 1 : 3, other = 4 - one;
    words[0] += words[one];
    words[one] = RotatedLeft(words[one], kRotations[round % 8][0]) ^ words[0];
    words[2] += words[other];
    words[other] = RotatedLeft(words[other], kRotations[round % 8][1]) ^ words[2];
    if (round % 4 != 3) continue;
    const int injection = round / 4 + 1;
    for (int i = 0; i < 4; ++i) words[i] += keys[(injection + i) % 5];
    words[3] += static_cast<uint32_t>(injection);
  }
}

}  // namespace
}  // namespace distill
