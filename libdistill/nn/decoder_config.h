// config.json of the Qwen2 and Llama families, in the older form (rope_theta, rope_scaling, torch_dtype) and in that of
// transformers 5 (rope_parameters, dtype).
//
// Every field that changes the computation is honoured, or refused by its name. Fields that are known to change nothing
// are passed over, unknown ones too, with a warning; all of them are kept for the config.json that is saved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

// Llama 3.1's stretching of slow rotations (transformers' modeling_rope_utils.py, _compute_llama3_parameters).
struct Llama3RopeScaling {
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_max_position_embeddings = 8192;
};

struct DecoderConfig {
  std::string model_type;  // "qwen2" or "llama"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // divides num_attention_heads
  int64_t head_dim = 0;             // even
  double rms_norm_eps = 1e-6;
  double attention_dropout = 0.0;  // in training, where it is asked for (LoadOptions::dropout)
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  int64_t pad_token_id = -1;  // its row of the embedding gets no gradient (padding_idx); -1: every row does
  bool query_key_value_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;
  double rope_theta = 10000.0;
  std::optional<Llama3RopeScaling> llama3_scaling;
  std::string json;  // the original text
};

// NotFound, DataLoss (no JSON), InvalidArgument: file and field are named, with what is supported.
[[nodiscard]] absl::StatusOr<DecoderConfig> ReadDecoderConfig(const std::string& folder);
// The same from text; `name` stands for the file in messages.
[[nodiscard]] absl::StatusOr<DecoderConfig> ParseDecoderConfig(const std::string& json, const std::string& name);

// The ids that end an answer: `eos_token_id`, a number or a list, of FOLDER/generation_config.json, else of its
// config.json; none where neither names any. DataLoss, InvalidArgument: file and field are named.
[[nodiscard]] absl::StatusOr<std::vector<int32_t>> ReadStopIds(const std::string& folder);

}  // namespace distill
