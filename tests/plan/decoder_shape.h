// The decoders whose memory is counted: Qwen2's traits, three times as wide in the feed-forward part, heads that share
// keys.
#pragma once

#include <cstdint>

#include "libdistill/nn/decoder_config.h"

namespace distill::testing {

inline DecoderConfig DecoderShape(int64_t vocabulary, int64_t hidden, int64_t layers) {
  DecoderConfig config;
  config.model_type = "qwen2";
  config.vocab_size = vocabulary;
  config.hidden_size = hidden;
  config.intermediate_size = 3 * hidden;
  config.num_hidden_layers = layers;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = hidden / 4;
  config.tie_word_embeddings = true;
  config.query_key_value_bias = true;
  return config;
}

}  // namespace distill::testing
