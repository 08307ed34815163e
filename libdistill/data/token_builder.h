// Makes a folder of tokens (token_folder.h) of a data set's rows. One that was interrupted is resumed behind its last
// shard.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/data/token_source.h"

namespace distill {

struct TokenFolderOptions {
  int64_t shard_bytes = int64_t{64} << 20;  // about so many of samples in a shard
};

// All that the tokens of a data set come from: the files with their versions, how they are made, and the options.
// Nothing where the rows can be read once alone (a pipe). The errors of FindRowFiles and OpenFile.
[[nodiscard]] absl::StatusOr<std::optional<std::string>> MadeOf(const TokenSourceOptions& source);

// `folder`, of any store, is there; one process at a time may work in it. `made_of`: all that the tokens come from, as
// text. Progress is logged. The errors of TokenSource::ForEach; those of writing have the payload kTokensNotWritten.
// FailedPrecondition: the folder holds tokens of something else.
[[nodiscard]] absl::StatusOr<TokenIndex> BuildTokenFolder(const std::string& folder, TokenSource& source,
                                                          const std::string& made_of,
                                                          const TokenFolderOptions& how = {});

constexpr char kTokensNotWritten[] = "libdistill.TokensNotWritten";

}  // namespace distill
