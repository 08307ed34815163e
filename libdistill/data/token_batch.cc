#include "libdistill/data/token_batch.h"

#include <algorithm>

namespace distill {

int64_t TokenBatch::num_loss_tokens() const {
  return std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label != kIgnoreLabel; });
}

int64_t TokenBatch::num_tokens() const {
  int64_t tokens = 0;
  for (const std::vector<int64_t>& starts : document_starts) tokens += starts.back();
  return tokens;
}

}  // namespace distill
