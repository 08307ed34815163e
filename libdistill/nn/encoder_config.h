// config.json of the BERT and DistilBERT families.
//
// Every field that changes the computation is honoured, or refused by its name; dropout is the exception: it is what
// other programs do in training, and nothing here drops anything. All fields are kept for the config.json that is
// saved.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace distill {

struct EncoderConfig {
  std::string model_type;  // "bert" or "distilbert"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;  // a multiple of num_attention_heads
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 0;  // 0: no embedding of token types
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
  int64_t pad_token_id = 0;  // its row of the embedding gets no gradient as an input (padding_idx)
  std::string json;          // the original text
};

// NotFound, DataLoss (no JSON), InvalidArgument: file and field are named, with what is supported.
[[nodiscard]] absl::StatusOr<EncoderConfig> ReadEncoderConfig(const std::string& folder);
// The same from text; `name` stands for the file in messages.
[[nodiscard]] absl::StatusOr<EncoderConfig> ParseEncoderConfig(const std::string& json, const std::string& name);

}  // namespace distill
