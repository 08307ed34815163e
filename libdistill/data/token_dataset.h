// Samples for language models: tensors "ids" (int32 [T]) and "is_target" (uint8 [T], 1 where the loss is taken on
// predicting this token), which Collate (collate.h) makes rows of.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "libdistill/data/dataset.h"

namespace distill {

struct TokenSample {
  std::vector<int32_t> ids;
  std::vector<uint8_t> is_target;
};

// In memory; their length is that of "ids".
std::shared_ptr<Dataset> MakeTokenDataset(std::vector<TokenSample> samples);

}  // namespace distill
