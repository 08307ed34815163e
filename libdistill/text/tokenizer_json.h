// tokenizer.json as its parts; everything that is not supported is refused here or by the part, by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/text/added_tokens.h"
#include "libdistill/text/normalizer.h"
#include "libdistill/text/post_processor.h"
#include "libdistill/text/pre_tokenizer.h"
#include "libdistill/text/token_decoder.h"
#include "libdistill/text/token_model.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

struct TokenizerParts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Vocabulary vocab;
  std::shared_ptr<const TokenModel> model;
  PostProcessor post_processor;
  TokenDecoder decoder;
  std::vector<AddedToken> added_tokens;
  std::string tokenizer_config;  // the text of tokenizer_config.json, with the special tokens that the class has
};

// Of tokenizer.json, with what the tokenizer's class changes of it (tokenizer_class.h). DataLoss: no JSON.
// InvalidArgument: kinds that are not supported, or contents that make no sense.
[[nodiscard]] absl::StatusOr<TokenizerParts> ParseTokenizerJson(const TokenizerTexts& texts);

}  // namespace distill
