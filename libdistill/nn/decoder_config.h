// What a decoder computes, as its config.json says it: in the older form (rope_theta, rope_scaling, torch_dtype) or in
// that of transformers 5 (rope_parameters, dtype). Families differ by traits; decoder_family.h says how each of them
// fills these in.
//
// Every field that changes the computation is honoured, or refused by its name. Fields that are known to change nothing
// are passed over, unknown ones too, with a warning; all of them are kept for the config.json that is saved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/nn/rope_config.h"

namespace distill {

// Root-mean-square norms. kRounded: states are rounded to the model's type before the weight multiplies them (Llama);
// kWide: after it (OLMo 2); kPlusOne: after it, and it is 1 + weight (Gemma).
enum class NormKind { kRounded, kWide, kPlusOne };
// Norms of query and keys before they are rotated: none, of each head by itself (Qwen3), of all heads as one (OLMo 2).
enum class QueryKeyNorm { kNone, kEachHead, kWhole };
// What the gate of the feed-forward part goes through.
enum class GateKind { kSilu, kGeluTanh };

// Where a block has norms, by their names in its weights; empty: none. "Before" is on the branch, "after" is on what
// the branch adds.
struct BlockNorms {
  const char* before_attention = "input_layernorm";
  const char* after_attention = "";
  const char* before_mlp = "post_attention_layernorm";
  const char* after_mlp = "";
};

struct DecoderLayer {
  int64_t window = 0;        // a token sees itself and the window - 1 tokens before it; 0: all before it
  int rope = 0;              // of DecoderConfig::ropes; -1: positions rotate nothing here
  bool has_experts = false;  // in place of one feed-forward part
};

// A mixture of experts (Shazeer et al. 2017).
struct ExpertsConfig {
  int64_t count = 0;        // 0: no layer has any
  int64_t per_token = 0;    // those that a token goes to
  int64_t size = 0;         // of each one's feed-forward part
  bool normalises = false;  // the shares of the chosen ones are made to add up to 1
  int64_t shared_size = 0;  // of one more that every token goes to, scaled by a gate of its own; 0: none
  // gpt-oss: the weights of all experts in one tensor, with biases; gate and up lie alternately, and become
  // (min(gate, limit) * sigmoid(slope * gate)) * (clamp(up, -limit, limit) + 1).
  bool is_stacked = false;
  double gate_slope = 1.702, gate_limit = 7.0;
};

struct DecoderConfig {
  std::string model_type = {};  // "qwen2", "llama", ...: decoder_family.h has all
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // divides num_attention_heads
  int64_t head_dim = 0;
  double rms_norm_eps = 1e-6;
  double attention_dropout = 0.0;  // in training, where it is asked for (LoadOptions::dropout)
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  int64_t pad_token_id = -1;  // its row of the embedding gets no gradient (padding_idx); -1: every row does
  bool query_key_value_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool mlp_bias = false;

  std::vector<RopeConfig> ropes = {RopeConfig()};
  std::vector<DecoderLayer> layers = {};  // those behind its end: full attention and the first rope
  NormKind norm = NormKind::kRounded;
  BlockNorms block_norms = {};
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  GateKind gate = GateKind::kSilu;
  bool fuses_projections = false;  // one matrix for query, keys and values, and one for gate and up (Phi-3)
  bool scales_embeddings = false;  // by the square root of hidden_size
  double attention_scale = 0;      // of query times key; 0: 1 / sqrt(head_dim)
  double attention_softcap = 0;    // scores become softcap * tanh(score / softcap); 0: they stay
  bool attention_sinks = false;    // one more score for each head, whose share no token gets
  double logit_softcap = 0;        // as attention_softcap, of logits
  ExpertsConfig experts = {};

  std::string json = {};  // the original text

  DecoderLayer layer(int64_t i) const { return i < static_cast<int64_t>(layers.size()) ? layers[i] : DecoderLayer(); }
};

// NotFound, DataLoss (no JSON), InvalidArgument: file and field are named, with what is supported.
[[nodiscard]] absl::StatusOr<DecoderConfig> ReadDecoderConfig(const std::string& folder);
// The same from text; `name` stands for the file in messages.
[[nodiscard]] absl::StatusOr<DecoderConfig> ParseDecoderConfig(const std::string& json, const std::string& name);

// The ids that end an answer: `eos_token_id`, a number or a list, of FOLDER/generation_config.json, else of its
// config.json; none where neither names any. DataLoss, InvalidArgument: file and field are named.
[[nodiscard]] absl::StatusOr<std::vector<int32_t>> ReadStopIds(const std::string& folder);

}  // namespace distill
