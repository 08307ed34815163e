// What the class of a tokenizer changes of its tokenizer.json. Internal to text/.
//
// transformers' AutoTokenizer (5.23) takes tokenizer.json as it stands for tokenizers of no class of their own
// (PreTrainedTokenizerFast, TokenizersBackend). The class that tokenizer_config.json names builds its steps anew, out
// of fields of that file, and takes the vocabulary alone from tokenizer.json. So these fields overrule it:
//
// - add_prefix_space of GPT2Tokenizer and others over bytes: that of every ByteLevel.
// - add_prefix_space and legacy of LlamaTokenizer: to which texts a space is added. An old tokenizer.json of Llama adds
//   one after every special token; the class does so at the beginning of a text alone, unless it says "legacy": true.
// - do_lower_case, strip_accents and tokenize_chinese_chars of BERT's classes: its normalizer.
// - bos_token and other special tokens: a class has some where no file names any.
//
// Which class it is also depends on the model, by tables of transformers; here that is done for the models in
// tokenizer_class.cc, and tokenizer.json stands as it is for the others. Steps that a class would leave out or put in
// stay as tokenizer.json has them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "libdistill/text/json_fields.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

// `tokenizer`: the contents of tokenizer.json. Gives those of tokenizer_config.json, with the special tokens that the
// class has where it names none. InvalidArgument, DataLoss: tokenizer_config.json or config.json, which is named.
[[nodiscard]] absl::StatusOr<std::string> ApplyTokenizerClass(const TokenizerTexts& texts, Json* tokenizer);

}  // namespace distill
