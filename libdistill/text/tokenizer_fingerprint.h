// By what tokenizers are told apart. Internal to text/.
#pragma once

#include <string>

#include "libdistill/text/tokenizer.h"

namespace distill {

// Of texts that could be read: Tokenizer::fingerprint().
std::string FingerprintOf(const TokenizerTexts& texts);

}  // namespace distill
