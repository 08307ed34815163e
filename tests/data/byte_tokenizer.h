// The smallest real tokenizer: a token for every byte, and the special tokens of ChatML (256, 257) and Llama 3.
#pragma once

#include "libdistill/text/tokenizer.h"

namespace distill {

Tokenizer ByteTokenizer();

}  // namespace distill
