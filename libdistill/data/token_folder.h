// A data set that was tokenized before: a folder of shards (token_shard.h) with an index, which is written last. What
// the token cache keeps, and what distill_data tokenize makes.
//
//   DISTILL_ASSIGN_OR_RETURN(const TokenIndex index, ReadTokenIndex(folder));
//   DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<Dataset> tokens, OpenTokenFolder(folder, index));
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"

namespace distill {

// How the tokens were made: what must be the same where they are used.
struct TokenRecipe {
  std::string tokenizer;      // Tokenizer::fingerprint()
  std::string chat_template;  // a hash of its text; empty: plain text
  std::string train_on;       // which tokens are targets, and of what
  int64_t max_length = 0;
};

struct TokenIndex {
  int64_t samples = 0;
  int64_t tokens = 0;
  int64_t shards = 0;
  std::string summary = {};      // ChatDataset::summary
  std::string fingerprint = {};  // Dataset::Fingerprint()
  std::string progress = {};     // of the rows (chat_counts.h), to the last one
  std::string made_of = {};      // what they were made of, for people and for the token cache
  TokenRecipe recipe = {};
};

// "00012.tokens".
std::string TokenShardName(int64_t shard);

// Whether `path`, of any store, is such a folder, and complete.
bool IsTokenFolder(const std::string& path);
// NotFound: the folder has none. DataLoss: it makes no sense.
[[nodiscard]] absl::StatusOr<TokenIndex> ReadTokenIndex(const std::string& folder);
// Makes the folder complete.
[[nodiscard]] absl::Status WriteTokenIndex(const std::string& folder, const TokenIndex& index);

// Its first `num_samples` samples; 0: all. Local shards are mapped, once for all processes of a host; of another
// store's, samples are fetched one by one. DataLoss: a shard is missing or damaged.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Dataset>> OpenTokenFolder(const std::string& folder,
                                                                       const TokenIndex& index,
                                                                       int64_t num_samples = 0);

}  // namespace distill
