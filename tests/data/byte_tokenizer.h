// The smallest real tokenizer: a token for every byte, and the special tokens of ChatML (256, 257) and Llama 3.
#pragma once

#include <string>

#include "libdistill/text/tokenizer.h"

namespace distill {

// `eos_token`: one of those, or "" for none. `post_processor`: as in tokenizer.json.
Tokenizer ByteTokenizer(const std::string& eos_token = "", const std::string& post_processor = "null");

}  // namespace distill
