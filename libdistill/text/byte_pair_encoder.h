// Byte-pair encoding (Sennrich et al. 2016) of one word, over bytes or characters.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/text/token_model.h"

namespace distill {

struct BpeOptions {
  std::vector<std::pair<std::string, std::string>> merges;  // the first one is applied first
  bool is_byte_level = false;  // words are bytes, which tokens spell in the alphabet of byte_level.h
  std::string unk_token;       // of a byte or character without a token; empty: it is left out
  bool fuse_unk = false;       // one unk_token for a run of them
  bool byte_fallback = false;  // such a character becomes its bytes' tokens <0x00> to <0xFF>, where there are all
  bool ignore_merges = false;  // a word that is a token is taken whole (Llama 3)
};

// InvalidArgument: a merge, or unk_token, that names a token outside the vocabulary.
[[nodiscard]] absl::StatusOr<std::shared_ptr<const TokenModel>> MakeBytePairEncoder(const Vocabulary& vocab,
                                                                                    const BpeOptions& options);

}  // namespace distill
