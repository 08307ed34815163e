// Data sets whose tokens were made before: in the token cache, or by who named their folder.
//
// An entry of the cache is a folder of tokens (token_folder.h), named for the data set and a hash of all that its
// tokens come from: the files with their versions, tokenizer, template and options. One process of a host makes it,
// the others wait for its lock and then map the same files. What is kept is never read for another recipe; entries
// may be removed at any time.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/data/chat_dataset.h"
#include "libdistill/data/token_cache_options.h"
#include "libdistill/data/token_folder.h"

namespace distill {

// The data set of a folder of tokens. InvalidArgument: they were made with another tokenizer, template, train_on, or
// max_length; keep_conversations, of which the folder has none.
[[nodiscard]] absl::StatusOr<ChatDataset> LoadTokenFolder(const std::string& folder, const Tokenizer& tokenizer,
                                                          const ChatTemplate& chat_template,
                                                          const ChatDatasetOptions& options);

// Through options.cache; blocks while another process makes the entry. Nothing: its rows cannot be read twice (a pipe),
// or the cache cannot be written and is not required. The errors of LoadChatDataset.
[[nodiscard]] absl::StatusOr<std::optional<ChatDataset>> LoadThroughTokenCache(const std::string& path,
                                                                               const Tokenizer& tokenizer,
                                                                               const ChatTemplate& chat_template,
                                                                               const ChatDatasetOptions& options);

}  // namespace distill
