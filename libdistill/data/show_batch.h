// A batch as a person reads it: for --show-batch.
#pragma once

#include <string>

#include "libdistill/data/token_batch.h"
#include "libdistill/text/tokenizer.h"

namespace distill {

// Every document of every row as text, cut where the loss begins and ends:
//   1 rows of up to 23 tokens; 23 tokens, 2 of them with loss; samples 17
//   row 0, tokens 0 to 23
//          | <|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n
//     loss | 4<|im_end|>
//          | \n
std::string DescribeBatch(const TokenBatch& batch, const Tokenizer& tokenizer);

}  // namespace distill
