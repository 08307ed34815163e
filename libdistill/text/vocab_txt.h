// A bare vocab.txt: BERT's tokenizer, as transformers' BertTokenizer makes it. Internal to text/.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

// Puts into `texts` the tokenizer.json that `vocab`, one token a line, stands for, and into its tokenizer_config the
// names of special tokens ([CLS], ...) that no file says. Of tokenizer_config do_lower_case, tokenize_chinese_chars and
// strip_accents count. InvalidArgument: a vocabulary without [UNK], [CLS] or [SEP]; DataLoss: no UTF-8.
[[nodiscard]] absl::Status CompleteFromVocab(const std::string& vocab, TokenizerTexts* texts);

}  // namespace distill
