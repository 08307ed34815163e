// Text out of a decoder, one token at a time, with a key-value cache.
#pragma once

#include <cstdint>
#include <vector>

#include "libdistill/nn/decoder.h"

namespace distill {

struct GenerateOptions {
  int64_t max_new_tokens = 256;
  double temperature = 0.0;  // 0: greedy, the most likely token each time
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;
  uint64_t seed = 42;
  std::vector<int32_t> stop_ids = {};
  int64_t vocabulary = 0;  // only the first so many ids are ever chosen; 0: all of the head's rows
};

// What follows each prompt, without the prompt; a stop id ends it and is included. Prompts share batches, whatever
// their lengths, and each gets what it would get alone, but for the rounding of sums. Throws c10::Error for an empty
// prompt and for ids that the model does not know.
std::vector<std::vector<int32_t>> Generate(Decoder& model, const std::vector<std::vector<int32_t>>& prompts,
                                           const GenerateOptions& options);

}  // namespace distill
