// Samples to a TokenBatch: padding, packing, and the one place where labels are shifted.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "libdistill/data/batch.h"
#include "libdistill/data/dataset.h"

namespace distill {

// Each element of `rows` lists the samples of one row, which follow one another in it, every one cut at max_length.
// The batch is as long as its longest row, and has no columns where `rows` is empty.
TokenBatch Collate(const TokenDataset& dataset, absl::Span<const std::vector<int64_t>> rows, int64_t max_length,
                   int32_t pad_id);

}  // namespace distill
