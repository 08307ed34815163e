// Data sets whose tokens were made before: in the token cache, or by who named their folder.
//
// An entry of the cache is a folder of tokens (token_folder.h), named for the data set and a hash of all that its
// tokens come from: the files with their versions, tokenizer, template and options. One process of a host makes it,
// the others wait for its lock and then map the same files. What is kept is never read for another recipe; entries
// may be removed at any time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/data/dataset.h"
#include "libdistill/data/token_cache_options.h"
#include "libdistill/data/token_source.h"

namespace distill {

struct KeptTokens {
  std::shared_ptr<Dataset> tokens;  // token samples (token_dataset.h), in mapped files
  std::string summary;
};

// The data set of a folder of tokens, source.path. InvalidArgument: they were made with another tokenizer, template,
// train_on, or max_length.
[[nodiscard]] absl::StatusOr<KeptTokens> LoadTokenFolder(const TokenSourceOptions& source);

// Blocks while another process makes the entry. Nothing: the rows cannot be read twice (a pipe), or the cache cannot be
// written and is not required; nothing of `source` was read then. The errors of TokenSource::ForEach.
[[nodiscard]] absl::StatusOr<std::optional<KeptTokens>> LoadThroughTokenCache(TokenSource& source,
                                                                              const TokenCache& cache);

}  // namespace distill
