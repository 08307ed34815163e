// A batch as a person reads it: for --show-batch.
#pragma once

#include <string>

#include "libdistill/data/batch.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

// Every document of every row as text. What the loss is taken on stands between [[ and ]]:
//   row 0, document 0 (sample 17): 12 tokens, 3 with loss
//   <|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n[[4<|im_end|>]]\n
std::string DescribeBatch(const TokenBatch& batch, const Tokenizer& tokenizer);

}  // namespace distill
