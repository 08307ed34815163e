// The logits of a language model where so many fit into memory: to choose tokens, to judge a model, to show what it
// finds likely. Training takes its losses without them (loss/distillation_loss.h).
#pragma once

#include <cstdint>

#include <torch/types.h>

#include "libdistill/nn/language_model.h"

namespace distill {

// float32 [N, V] of what the head gets, [N, H] of HeadInput, for the first `vocabulary` ids; 0: for all.
torch::Tensor LogitsOf(const LanguageModel& model, const torch::Tensor& input, int64_t vocabulary = 0);
// The rest of it, out of the product with the head's first V rows: bias, scale and cap.
torch::Tensor LogitsOfProduct(const LanguageModel& model, torch::Tensor product);

}  // namespace distill
