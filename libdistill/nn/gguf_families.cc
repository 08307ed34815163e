#include "libdistill/nn/gguf_families.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/gguf_fields.h"
#include "libdistill/nn/gguf_rope.h"

namespace distill {
namespace {

using nlohmann::ordered_json;

// What no family but Gemma's has.
absl::Status AddSilu(GgufFields& fields) {
  fields.config["hidden_act"] = "silu";
  DISTILL_RETURN_IF_ERROR(fields.RequireNo("attn_logit_softcapping"));
  return fields.RequireNo("final_logit_softcapping");
}

absl::Status AddLlama(GgufFields& fields) {
  fields.config["attention_bias"] = fields.weights().Find("model.layers.0.self_attn.q_proj.bias") != nullptr;
  fields.config["mlp_bias"] = fields.weights().Find("model.layers.0.mlp.up_proj.bias") != nullptr;
  DISTILL_RETURN_IF_ERROR(fields.RequireNo("attention.sliding_window"));
  return AddSilu(fields);
}

absl::Status AddQwen(GgufFields& fields) {
  DISTILL_RETURN_IF_ERROR(fields.RequireNo("attention.sliding_window"));
  return AddSilu(fields);
}

// Phi-3 and Phi-4: a window of 0 is none.
absl::Status AddPhi(GgufFields& fields) {
  DISTILL_RETURN_IF_ERROR(fields.Require("sliding_window", "attention.sliding_window"));
  if (fields.config["sliding_window"] == 0) fields.config["sliding_window"] = nullptr;
  fields.Copy("original_max_position_embeddings", "rope.scaling.original_context_length");
  fields.config["pad_token_id"] = nullptr;
  const auto padding = fields.metadata().find("tokenizer.ggml.padding_token_id");
  if (padding != fields.metadata().end()) fields.config["pad_token_id"] = JsonOf(padding->second);
  return AddSilu(fields);
}

// One layer in `period` sees everything, the last of them; without a window all do.
absl::Status AddWindows(GgufFields& fields, int64_t period) {
  const ordered_json own = fields.Get("attention.sliding_window_pattern");
  if (!own.is_null() && (!own.is_number_integer() || own.get<int64_t>() < 1)) {
    return RefuseKey(fields.KeyOf("attention.sliding_window_pattern"), own);
  }
  if (!own.is_null()) period = own.get<int64_t>();
  fields.Copy("sliding_window", "attention.sliding_window");
  if (fields.Count("sliding_window") == 0) period = 1;
  if (period == 1) fields.config.erase("sliding_window");
  ordered_json types = ordered_json::array();
  constexpr int64_t kMost = 4096;  // whoever reads the config.json refuses more layers than are likely
  for (int64_t i = 1; i <= std::min(fields.Count("num_hidden_layers"), kMost); ++i) {
    types.push_back(i % period == 0 ? "full_attention" : "sliding_attention");
  }
  fields.config["layer_types"] = std::move(types);
  return absl::OkStatus();
}

// What queries are scaled by is not in the file: as llama.cpp does, the largest model of each kind is told by the
// number of its layers.
absl::Status AddGemma(GgufFields& fields, int64_t layers_of_largest, int64_t period) {
  fields.config["hidden_activation"] = "gelu_pytorch_tanh";
  const int64_t heads = fields.Count("num_attention_heads");
  const bool is_largest = fields.Count("num_hidden_layers") == layers_of_largest && heads > 0;
  fields.config["query_pre_attn_scalar"] = is_largest ? fields.Count("hidden_size") / heads : fields.Count("head_dim");
  fields.Copy("final_logit_softcapping", "final_logit_softcapping");
  return AddWindows(fields, period);
}

absl::Status AddGemma2(GgufFields& fields) {
  fields.config["sliding_window"] = 4096;  // where a file of the first days does not say it
  fields.Copy("attn_logit_softcapping", "attn_logit_softcapping");
  return AddGemma(fields, /*layers_of_largest=*/46, /*period=*/2);
}

absl::Status AddGemma3(GgufFields& fields) {
  DISTILL_RETURN_IF_ERROR(fields.RequireNo("attn_logit_softcapping"));
  fields.config["rope_local_base_freq"] = 10000.0;
  fields.Copy("rope_local_base_freq", "rope.freq_base_swa");
  return AddGemma(fields, /*layers_of_largest=*/62, /*period=*/6);
}

struct Architecture {
  absl::string_view name;
  const char* model_type;
  absl::Status (*add)(GgufFields& fields);  // what it has beside what all have
};
constexpr Architecture kArchitectures[] = {{"llama", "llama", AddLlama},         {"qwen2", "qwen2", AddQwen},
                                           {"qwen3", "qwen3", AddQwen},          {"gemma2", "gemma2", AddGemma2},
                                           {"gemma3", "gemma3_text", AddGemma3}, {"phi3", "phi3", AddPhi}};

absl::Status AddSizes(GgufFields& fields) {
  const TensorView* embedding = fields.weights().Find("model.embed_tokens.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return absl::InvalidArgumentError("it has no matrix \"token_embd.weight\"");
  }
  fields.config["vocab_size"] = embedding->shape[0];
  DISTILL_RETURN_IF_ERROR(fields.Require("hidden_size", "embedding_length"));
  DISTILL_RETURN_IF_ERROR(fields.Require("intermediate_size", "feed_forward_length"));
  DISTILL_RETURN_IF_ERROR(fields.Require("num_hidden_layers", "block_count"));
  DISTILL_RETURN_IF_ERROR(fields.Require("num_attention_heads", "attention.head_count"));
  fields.config["num_key_value_heads"] = fields.config["num_attention_heads"];
  fields.Copy("num_key_value_heads", "attention.head_count_kv");
  const int64_t heads = fields.Count("num_attention_heads"), size = fields.Count("hidden_size");
  if (heads > 0 && size % heads == 0) fields.config["head_dim"] = size / heads;
  fields.Copy("head_dim", "attention.key_length");
  DISTILL_RETURN_IF_ERROR(fields.Require("rms_norm_eps", "attention.layer_norm_rms_epsilon"));
  fields.Copy("max_position_embeddings", "context_length");
  fields.config["tie_word_embeddings"] = fields.weights().Find("lm_head.weight") == nullptr;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ConfigOfGguf(const GgufMetadata& metadata, const WeightsFolder& weights) {
  ordered_json config;
  GgufFields fields(metadata, weights, config);
  const Architecture* found =
      absl::c_find_if(kArchitectures, [&](const Architecture& known) { return known.name == fields.Architecture(); });
  if (found == std::end(kArchitectures)) return RefuseKey("general.architecture", fields.Architecture());
  config["model_type"] = found->model_type;
  DISTILL_RETURN_IF_ERROR(AddSizes(fields));
  DISTILL_RETURN_IF_ERROR(found->add(fields));
  for (const char* key :
       {"expert_count", "attention.scale", "attention.temperature_scale", "rope.dimension_sections"}) {
    DISTILL_RETURN_IF_ERROR(fields.RequireNo(key));
  }
  for (const char* key : {"logit_scale", "residual_scale", "embedding_scale"}) {
    DISTILL_RETURN_IF_ERROR(fields.RequireNo(key, /*neutral=*/1));
  }
  DISTILL_RETURN_IF_ERROR(AddGgufRope(fields));
  config["torch_dtype"] = "bfloat16";
  return config.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace distill
