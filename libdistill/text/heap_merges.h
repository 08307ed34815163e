// Byte-pair encoding as it is said: of all adjacent pairs the one with the lowest rank is merged, the leftmost of
// equals first, until none has a rank. For any rules; ExactMerges is faster, for most. Internal to text/.
#pragma once

#include <cstdint>
#include <vector>

#include "libdistill/text/pair_table.h"

namespace distill {

struct MergeSymbol {
  int32_t id;
  uint32_t size;  // bytes of the word
};

// Leaves the tokens that `merges` make of a word's symbols.
void MergeByHeap(const PairTable& merges, std::vector<MergeSymbol>* symbols);

}  // namespace distill
