// Data sets as tokens: made, shown, counted and checked.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "examples/data/options.h"

namespace distill {

// A folder of tokens, of any store, that distill_llm takes as dataset_name. Goes on where it was interrupted.
[[nodiscard]] absl::Status Tokenize(const std::string& path, const std::string& folder, const DataOptions& options);

// Prints how many samples, tokens and shards a folder of tokens has.
[[nodiscard]] absl::Status CountTokens(const std::string& folder);

// Prints the first rows as tokens, and which of them have a loss.
[[nodiscard]] absl::Status PrintTokens(const std::string& path, const DataOptions& options);

// Prints how long samples are, how many were cut, and how much of a batch is padding.
[[nodiscard]] absl::Status PrintStats(const std::string& path, const DataOptions& options);

// Reads all samples of a folder of tokens, and says that they are as they were written.
[[nodiscard]] absl::Status VerifyTokens(const std::string& folder);

// InvalidArgument where no tokenizer was named.
[[nodiscard]] absl::Status CheckHasTokenizer(const DataOptions& options);

}  // namespace distill
