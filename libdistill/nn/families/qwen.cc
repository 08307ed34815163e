// Qwen2 and Qwen2.5: biases at query, keys and values. Qwen3: norms of each head's query and keys in their place. The
// mixtures of both: experts that most layers have in place of one feed-forward part; Qwen2's have one more that every
// token goes to.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_reader.h"
#include "libdistill/nn/decoder_family.h"

namespace distill {
namespace {

using nlohmann::json;

// The first max_window_layers see everything, and the others a window.
absl::Status ReadWindows(const json& document, DecoderConfig& config) {
  ConfigReader reader(document);
  bool slides = false;
  int64_t first = 28;
  reader.Bool("use_sliding_window", slides);
  reader.Count("max_window_layers", first);
  DISTILL_RETURN_IF_ERROR(reader.status());
  DISTILL_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(document, /*otherwise=*/4096));
  return ReadLayerTypes(
      document, slides ? window : 0, [&](int64_t layer) { return layer >= first; }, config);
}

absl::Status ReadExperts(const json& document, DecoderConfig& config) {
  ConfigReader reader(document);
  ExpertsConfig& experts = config.experts;
  reader.Size("num_local_experts", experts.count);  // as transformers 5 saves it
  reader.Size("num_experts", experts.count);
  reader.Size("num_experts_per_tok", experts.per_token);
  reader.Size("moe_intermediate_size", experts.size);
  reader.Bool("norm_topk_prob", experts.normalises);
  if (config.model_type == "qwen2_moe") reader.Size("shared_expert_intermediate_size", experts.shared_size);
  int64_t step = 1;
  reader.Size("decoder_sparse_step", step);
  std::vector<int64_t> without;
  reader.Counts("mlp_only_layers", without);
  DISTILL_RETURN_IF_ERROR(reader.status());
  DISTILL_RETURN_IF_ERROR(CheckExperts(document, experts));
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    config.layers[i].has_experts = (i + 1) % step == 0 && std::find(without.begin(), without.end(), i) == without.end();
  }
  return absl::OkStatus();
}

absl::Status ReadMixture(const json& document, DecoderConfig& config) {
  // transformers' Qwen3MoE has one window for all layers, where it has any; no published model does.
  ConfigReader reader(document);
  bool slides = false;
  reader.Bool("use_sliding_window", slides);
  DISTILL_RETURN_IF_ERROR(reader.status());
  if (slides) return Refuse("use_sliding_window", true, "only false is");
  DISTILL_RETURN_IF_ERROR(ReadLayerTypes(
      document, 0, [](int64_t) { return false; }, config));
  return ReadExperts(document, config);
}

constexpr char kWindowFields[] = "use_sliding_window sliding_window max_window_layers layer_types";
constexpr char kMixtureFields[] =
    "use_sliding_window sliding_window max_window_layers num_experts num_local_experts num_experts_per_tok "
    "moe_intermediate_size norm_topk_prob shared_expert_intermediate_size decoder_sparse_step mlp_only_layers qkv_bias";

}  // namespace

DecoderFamily Qwen2Family() {
  return {.model_type = "qwen2",
          .defaults = {.num_key_value_heads = 32, .query_key_value_bias = true},
          .rope = {.longest = 32768},
          .fields = kWindowFields,
          .read = ReadWindows,
          .bias_field = ""};
}

DecoderFamily Qwen3Family() {
  return {.model_type = "qwen3",
          .defaults = {.num_key_value_heads = 32, .head_dim = 128, .query_key_norm = QueryKeyNorm::kEachHead},
          .rope = {.longest = 32768},
          .fields = kWindowFields,
          .read = ReadWindows};
}

DecoderFamily Qwen2MoeFamily() {
  return {.model_type = "qwen2_moe",
          .defaults = {.num_key_value_heads = 16,
                       .query_key_value_bias = true,
                       .experts = {.count = 60, .per_token = 4, .size = 1408, .shared_size = 5632}},
          .rope = {.longest = 32768},
          .fields = kMixtureFields,
          .read = ReadMixture,
          .bias_field = "qkv_bias"};
}

DecoderFamily Qwen3MoeFamily() {
  return {.model_type = "qwen3_moe",
          .defaults = {.num_key_value_heads = 4,
                       .query_key_norm = QueryKeyNorm::kEachHead,
                       .experts = {.count = 128, .per_token = 8, .size = 768}},
          .rope = {.longest = 32768},
          .fields = kMixtureFields,
          .read = ReadMixture};
}

}  // namespace distill
