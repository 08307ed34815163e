// What a tokenizer's folder says beside tokenizer.json: special tokens, added tokens, the chat template.
//
// transformers writes the same in several files, and which one counts has changed over its versions. Merged is as its
// AutoTokenizer (5.23, PreTrainedTokenizerBase._from_pretrained and TokenizersBackend.__init__) does it:
//
// - tokenizer_config.json has named tokens (bos_token, ...), extra special tokens, and may have "added_tokens_decoder",
//   the added tokens by id. Where it has that, special_tokens_map.json and added_tokens.json are of no account.
// - Elsewhere special_tokens_map.json overrides the names, and added_tokens.json adds to the added tokens.
// - All of them are added to tokenizer.json's tokens, by content: one that is there takes on the new flags, a new one
//   gets the next id, whatever id the file says.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/text/added_tokens.h"
#include "libdistill/text/token_model.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

struct TokenizerConfig {
  std::string bos_token, eos_token, pad_token, unk_token, sep_token, cls_token, mask_token;  // empty: none
  std::string chat_template;
  bool split_special_tokens = false;  // special tokens in a text are text
};

// `added`: tokenizer.json's, which are completed; `vocab`: the model's. InvalidArgument, DataLoss: the file is named.
[[nodiscard]] absl::StatusOr<TokenizerConfig> MergeSpecialTokens(const TokenizerTexts& texts, const Vocabulary& vocab,
                                                                 std::vector<AddedToken>* added);

}  // namespace distill
