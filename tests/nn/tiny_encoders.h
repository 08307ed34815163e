// Tiny encoders for the tests of nn/.
#pragma once

#include <string>

#include "libdistill/nn/encoder_config.h"
#include "tests/support/catch.h"

namespace distill {

inline constexpr const char* kTinyBert = R"({
  "model_type": "bert", "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
  "num_attention_heads": 4, "max_position_embeddings": 32, "hidden_dropout_prob": 0.1, "initializer_range": 0.2,
  "torch_dtype": "float32"
})";
inline constexpr const char* kTinyDistilBert = R"({
  "model_type": "distilbert", "vocab_size": 61, "dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 4,
  "max_position_embeddings": 32, "dropout": 0.1, "initializer_range": 0.2, "dtype": "float32"
})";
inline constexpr const char* kTinyRoberta = R"({
  "model_type": "roberta", "vocab_size": 61, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
  "num_attention_heads": 4, "max_position_embeddings": 34, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
  "initializer_range": 0.2, "torch_dtype": "float32"
})";

inline EncoderConfig TinyEncoder(const std::string& json) {
  auto config = ParseEncoderConfig(json, "tiny");
  INFO(config.status());
  REQUIRE(config.ok());
  return *config;
}

}  // namespace distill
