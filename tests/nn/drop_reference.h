// Which elements dropout drops, one by one: the plain version of nn/drop_factors.h.
#pragma once

#include <cstdint>

#include <torch/types.h>

#include "libdistill/core/threefry.h"
#include "libdistill/nn/dropping.h"

namespace distill {

// float32 [rows, size]: what the elements of rows that begin with a block each are multiplied by.
inline torch::Tensor DropFactors(const Dropping& dropping, int64_t rows, int64_t size) {
  const uint32_t key[4] = {static_cast<uint32_t>(dropping.seed), static_cast<uint32_t>(dropping.seed >> 32), 0, 0};
  const int64_t blocks = (size + kDropBlock - 1) / kDropBlock;
  torch::Tensor factors = torch::empty({rows, size});
  auto at = factors.accessor<float, 2>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < size; ++i) {
      const int64_t block = row * blocks + i / kDropBlock, in_block = i % kDropBlock;
      uint32_t words[4] = {static_cast<uint32_t>(in_block % 16), static_cast<uint32_t>(block), 0, 0};
      Threefry(key, words);
      const uint32_t word = words[in_block / 32], drawn = in_block % 32 < 16 ? word & 0xffff : word >> 16;
      at[row][i] = drawn >= dropping.threshold ? dropping.scale : 0;
    }
  }
  return factors;
}

}  // namespace distill
