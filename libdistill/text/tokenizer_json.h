// tokenizer.json as a plain struct; everything that is not supported is refused here, by name.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/text/added_tokens.h"
#include "libdistill/text/byte_pair_encoder.h"
#include "libdistill/text/pre_tokenizer.h"

namespace distill {

struct TokenizerSpec {
  bool nfc = false;
  std::vector<AddedToken> added_tokens;
  std::vector<PreTokenizerStep> steps;
  BpeSpec bpe;
};

// DataLoss: no JSON. InvalidArgument: kinds that are not supported, or contents that make no sense.
[[nodiscard]] absl::StatusOr<TokenizerSpec> ParseTokenizerJson(const std::string& text);

}  // namespace distill
