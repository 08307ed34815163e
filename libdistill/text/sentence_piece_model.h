// A bare tokenizer.model (SentencePiece): Llama 2's, Mistral's, Gemma's, T5's. Internal to text/.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

// Puts into `texts` the tokenizer.json that transformers 5.23 makes of a model's bytes, and into its tokenizer_config
// the names of special tokens that no file says. Which rules count says tokenizer_class of tokenizer_config.json, or
// config.json's model_type (`config`, empty: none): those of LlamaTokenizer, GemmaTokenizer or T5Tokenizer; else those
// that the model itself has. InvalidArgument: a class or an algorithm that is not supported, a model that makes no
// sense; DataLoss: damaged bytes.
[[nodiscard]] absl::Status CompleteFromSentencePiece(const std::string& model, TokenizerTexts* texts);

}  // namespace distill
