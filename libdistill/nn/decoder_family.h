// The families of decoders that are known: each is one description of what differs, in a file of families/, which
// docs/extending.md shows how to write. The decoder itself (decoder.cc) knows traits, and no family by name.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libdistill/nn/decoder_config.h"

namespace distill {

struct DecoderFamily {
  absl::string_view model_type;
  // Its traits, and what transformers takes where config.json does not have a field. num_key_value_heads 0: as many as
  // heads; head_dim 0: hidden_size / num_attention_heads.
  DecoderConfig defaults = {};
  RopeDefaults rope = {};
  // Fields of config.json that change what it computes and that `read` honours, beside those of every decoder; with
  // spaces between them.
  absl::string_view fields = "";
  // Fills in what the fields say. Called when sizes, biases and the first rope are there. Null: nothing more.
  absl::Status (*read)(const nlohmann::json& document, DecoderConfig& config) = nullptr;
  // The field that says whether query, keys and values have biases: "attention_bias" speaks of the output projection,
  // too. Empty: what `defaults` has is all there is.
  absl::string_view bias_field = "attention_bias";
};

// In the order in which messages name them.
absl::Span<const DecoderFamily> DecoderFamilies();
// Null where there is none.
const DecoderFamily* FindDecoderFamily(absl::string_view model_type);

// For families' files.
//
// "layer_types", a list of "full_attention" and "sliding_attention"; where there is none is_sliding(i) says which are
// which. The window of the latter is `window`; 0: all layers see everything.
[[nodiscard]] absl::Status ReadLayerTypes(const nlohmann::json& document, int64_t window,
                                          absl::FunctionRef<bool(int64_t layer)> is_sliding, DecoderConfig& config);
// Of a mixture: how many experts, which is "num_experts" or, where there is none, "num_local_experts", and how many of
// them a token goes to.
[[nodiscard]] absl::Status CheckExperts(const nlohmann::json& document, const ExpertsConfig& experts);
// "sliding_window", or `otherwise` where there is none; null is 0.
[[nodiscard]] absl::StatusOr<int64_t> ReadWindow(const nlohmann::json& document, int64_t otherwise);
// The same, for all layers alike.
[[nodiscard]] absl::Status ReadWindowOfAll(const nlohmann::json& document, int64_t otherwise, DecoderConfig& config);

DecoderFamily Qwen2Family();
DecoderFamily Qwen3Family();
DecoderFamily Qwen3MoeFamily();
DecoderFamily Qwen2MoeFamily();
DecoderFamily LlamaFamily();
DecoderFamily MistralFamily();
DecoderFamily SmolLm3Family();
DecoderFamily Olmo2Family();
DecoderFamily Phi3Family();
DecoderFamily Gemma2Family();
DecoderFamily Gemma3Family();
DecoderFamily GptOssFamily();

}  // namespace distill
