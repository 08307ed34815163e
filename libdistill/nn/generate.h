// Text out of a decoder, one token at a time, with a key-value cache.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/nn/sampling.h"

namespace distill {

struct GenerateOptions {
  int64_t max_new_tokens = 256;
  SamplingOptions sampling = {};
  uint64_t seed = 42;
  size_t first_prompt = 0;  // the number of the first of these prompts, where they are some of many: draws go by it
  std::vector<int32_t> stop_ids = {};
  int64_t vocabulary = 0;  // only the first so many ids are ever chosen; 0: all of the head's rows
  // On CPUs, while prompts share batches: copies of weights, which make passes faster, take up to so much memory, and
  // would take as much as the weights; what does not fit is not copied. By default there is no bound.
  uint64_t copied_bytes = std::numeric_limits<uint64_t>::max();
};

// What one step adds to the answer to a prompt.
struct NewToken {
  size_t prompt;  // its number among the prompts
  int32_t id;
  bool is_last;  // the answer ends with it: as it comes, of a stop id or since max_new_tokens are there
};

// Told of a step's tokens, those of a batch, before the next step begins; may set is_last, to end an answer there.
using OnTokens = std::function<void(absl::Span<NewToken> tokens)>;

// What follows each prompt, without the prompt; a stop id ends it and is included. Prompts share batches, whatever
// their lengths, and each gets what it would get alone, but for the rounding of sums. Throws c10::Error for an empty
// prompt, for ids that the model does not know, for options out of their range, and where no token can be drawn since
// logits are no numbers.
std::vector<std::vector<int32_t>> Generate(Decoder& model, const std::vector<std::vector<int32_t>>& prompts,
                                           const GenerateOptions& options, const OnTokens& on_tokens = nullptr);

// What SamplingOptions::repetition_penalty says: changes, in each row of `logits`, float32 [B, V], those of the ids
// that `seen` holds for it, each once; ids from V on do not count.
void PenaliseRepetition(const std::vector<std::vector<int32_t>>& seen, double penalty, torch::Tensor& logits);

}  // namespace distill
