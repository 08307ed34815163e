// Batches of a language model: token samples (token_dataset.h), dealt by a DataSharder, made into rows by Collate.
//
//   DISTILL_ASSIGN_OR_RETURN(auto batches, TokenBatches::Create(data, rank, world_size, {.rows_per_rank = 4}));
//   DISTILL_ASSIGN_OR_RETURN(const std::vector<TokenBatch> micro_batches, batches.NextStep());
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "libdistill/data/batches.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/token_batch.h"

namespace distill {

class TokenBatches : public Batches<TokenBatch> {
 public:
  // Samples longer than options.max_length are cut. The errors are those of DataSharder::Create; what is wrong with a
  // sample is found when its step is made.
  [[nodiscard]] static absl::StatusOr<TokenBatches> Create(std::shared_ptr<const Dataset> dataset, int rank,
                                                           int world_size, const ShardOptions& options,
                                                           int32_t pad_id = 0);

 private:
  using Batches<TokenBatch>::Batches;
};

}  // namespace distill
