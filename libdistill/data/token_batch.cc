#include "libdistill/data/token_batch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"

namespace distill {

int64_t TokenBatch::num_loss_tokens() const {
  return std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label != kIgnoreLabel; });
}

int64_t TokenBatch::num_tokens() const {
  int64_t tokens = 0;
  for (const std::vector<int64_t>& starts : document_starts) tokens += starts.back();
  return tokens;
}

absl::StatusOr<TokenBatches> TokenBatches::Create(std::shared_ptr<const Dataset> dataset, int rank, int world_size,
                                                  const ShardOptions& options, int32_t pad_id) {
  DISTILL_ASSIGN_OR_RETURN(DataSharder sharder, DataSharder::Create(std::move(dataset), rank, world_size, options));
  const auto collate = [max_length = options.max_length, pad_id](absl::Span<const SampleRow> rows) {
    return Collate(rows, max_length, pad_id);
  };
  return TokenBatches(std::move(sharder), collate, {{"pad_id", absl::StrCat(pad_id)}});
}

}  // namespace distill
