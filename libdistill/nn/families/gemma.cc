// Gemma 2 and the text models of Gemma 3: norms of 1 + weight before and after each branch, embeddings scaled by the
// square root of their size, layers with a window between those that see everything, and caps on logits (Gemma 2) or
// norms of each head's query and keys, with another base of positions in layers with a window (Gemma 3).
#include <cmath>
#include <nlohmann/json.hpp>

#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_reader.h"
#include "libdistill/nn/decoder_family.h"

namespace distill {
namespace {

using nlohmann::json;

constexpr char kFields[] =
    "hidden_act hidden_activation query_pre_attn_scalar final_logit_softcapping attn_logit_softcapping sliding_window "
    "layer_types sliding_window_pattern _sliding_window_pattern rope_local_base_freq";

// What both have.
absl::Status ReadScales(const json& document, DecoderConfig& config) {
  ConfigReader reader(document);
  const json* activation = reader.Find("hidden_activation");
  if (activation != nullptr && *activation != "gelu_pytorch_tanh") {
    return Refuse("hidden_activation", *activation, "only \"gelu_pytorch_tanh\" is");
  }
  double size = 256;
  reader.Number("query_pre_attn_scalar", size);
  config.attention_scale = 1 / std::sqrt(size);
  reader.NumberOrNull("attn_logit_softcapping", config.attention_softcap);
  reader.NumberOrNull("final_logit_softcapping", config.logit_softcap);
  return reader.status();
}

absl::Status ReadGemma2(const json& document, DecoderConfig& config) {
  DISTILL_RETURN_IF_ERROR(ReadScales(document, config));
  DISTILL_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(document, /*otherwise=*/4096));
  return ReadLayerTypes(
      document, window, [](int64_t layer) { return layer % 2 == 0; }, config);
}

absl::Status ReadGemma3(const json& document, DecoderConfig& config) {
  DISTILL_RETURN_IF_ERROR(ReadScales(document, config));
  if (config.attention_softcap > 0) {
    // transformers reads the field, and its Gemma 3 has no such cap all the same.
    return Refuse("attn_logit_softcapping", document["attn_logit_softcapping"], "only null is");
  }
  ConfigReader reader(document);
  int64_t pattern = 6;
  reader.Size("sliding_window_pattern", pattern);
  reader.Size("_sliding_window_pattern", pattern);
  DISTILL_RETURN_IF_ERROR(reader.status());
  DISTILL_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(document, /*otherwise=*/4096));
  DISTILL_RETURN_IF_ERROR(ReadLayerTypes(
      document, window, [&](int64_t layer) { return (layer + 1) % pattern != 0; }, config));
  // Layers with a window rotate by a rope of their own, which older files only have the base of.
  double local = 10000;
  reader.Number("rope_local_base_freq", local);
  DISTILL_RETURN_IF_ERROR(reader.status());
  const RopeDefaults defaults = {.theta = local, .layer_type = "sliding_attention", .reads_older_form = false};
  DISTILL_ASSIGN_OR_RETURN(const RopeConfig rope, ReadRope(document, defaults, config.head_dim));
  config.ropes.push_back(rope);
  for (DecoderLayer& layer : config.layers) layer.rope = layer.window > 0 ? 1 : 0;
  return absl::OkStatus();
}

DecoderConfig Traits() {
  return {.num_key_value_heads = 4,
          .head_dim = 256,
          .tie_word_embeddings = true,
          .pad_token_id = 0,
          .norm = NormKind::kPlusOne,
          .block_norms = {.after_attention = "post_attention_layernorm",
                          .before_mlp = "pre_feedforward_layernorm",
                          .after_mlp = "post_feedforward_layernorm"},
          .gate = GateKind::kGeluTanh,
          .scales_embeddings = true};
}

}  // namespace

DecoderFamily Gemma2Family() {
  DecoderConfig traits = Traits();
  traits.attention_softcap = 50;
  traits.logit_softcap = 30;
  return {.model_type = "gemma2", .defaults = traits, .rope = {.longest = 8192}, .fields = kFields, .read = ReadGemma2};
}

DecoderFamily Gemma3Family() {
  DecoderConfig traits = Traits();
  traits.query_key_norm = QueryKeyNorm::kEachHead;
  return {.model_type = "gemma3_text",
          .defaults = traits,
          .rope = {.theta = 1e6, .longest = 131072, .layer_type = "full_attention"},
          .fields = kFields,
          .read = ReadGemma3};
}

}  // namespace distill
