// What one forward and backward pass of a language model works on, and where such batches come from: token samples
// (token_dataset.h), dealt by a DataSharder, made into rows by Collate.
//
//   DISTILL_ASSIGN_OR_RETURN(auto batches, TokenBatches::Create(data, rank, world_size, {.rows_per_rank = 4}));
//   DISTILL_ASSIGN_OR_RETURN(const std::vector<TokenBatch> micro_batches, batches.NextStep());
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/data/batches.h"
#include "libdistill/data/dataset.h"

namespace distill {

constexpr int32_t kIgnoreLabel = -100;

class Tokenizer;
struct SentTokens;  // task/device_batch.h

// `rows` sequences, padded on the right to `length`. A row holds one document, or several one after another (packing).
// labels[i] is the token that follows input_ids[i] in its document, or kIgnoreLabel: shifted here, once, for all.
struct TokenBatch {
  int64_t rows = 0;
  int64_t length = 0;
  std::vector<int32_t> input_ids;  // [rows, length]
  std::vector<int32_t> labels;     // [rows, length]
  // For each row the starts of its documents and, last, the end of its tokens (padding follows): [0, ..., tokens].
  std::vector<std::vector<int64_t>> document_starts;
  std::vector<int64_t> sample_ids;         // which samples of the data set lie in it, in order
  std::shared_ptr<const SentTokens> sent;  // the same on the GPU that trains, where that was sent ahead; or null

  int64_t num_loss_tokens() const;  // labels that are not ignored
  int64_t num_tokens() const;       // without padding
};

// A batch as a person reads it, for --show-batch: every document of every row as text, cut where the loss begins and
// ends:
//   1 rows of up to 23 tokens; 23 tokens, 2 of them with loss; samples 17
//   row 0, tokens 0 to 23
//          | <|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n
//     loss | 4<|im_end|>
//          | \n
std::string DescribeBatch(const TokenBatch& batch, const Tokenizer& tokenizer);

class MlmMasking;

class TokenBatches : public Batches<TokenBatch> {
 public:
  // Samples longer than options.max_length are cut. The errors are those of DataSharder::Create; what is wrong with a
  // sample is found when its step is made.
  [[nodiscard]] static absl::StatusOr<TokenBatches> Create(std::shared_ptr<const Dataset> dataset, int rank,
                                                           int world_size, const ShardOptions& options,
                                                           int32_t pad_id = 0);

  // Of a masked language model: rows by CollateMasked (collate.h).
  [[nodiscard]] static absl::StatusOr<TokenBatches> CreateMasked(std::shared_ptr<const Dataset> dataset, int rank,
                                                                 int world_size, const ShardOptions& options,
                                                                 const MlmMasking& masking, int32_t pad_id = 0);

 private:
  using Batches<TokenBatch>::Batches;
};

}  // namespace distill
