#include "libdistill/data/token_batches.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/data/collate.h"

namespace distill {

absl::StatusOr<TokenBatches> TokenBatches::Create(std::shared_ptr<const Dataset> dataset, int rank, int world_size,
                                                  const ShardOptions& options, int32_t pad_id) {
  DISTILL_ASSIGN_OR_RETURN(DataSharder sharder, DataSharder::Create(std::move(dataset), rank, world_size, options));
  const auto collate = [max_length = options.max_length, pad_id](absl::Span<const SampleRow> rows) {
    return Collate(rows, max_length, pad_id);
  };
  return TokenBatches(std::move(sharder), collate, {{"pad_id", absl::StrCat(pad_id)}});
}

}  // namespace distill
