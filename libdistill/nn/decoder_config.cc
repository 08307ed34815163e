#include "libdistill/nn/decoder_config.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_fields.h"
#include "libdistill/nn/config_reader.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

using nlohmann::json;

absl::Status ReadSizes(const json& document, DecoderConfig& config) {
  ConfigReader reader(document);
  reader.Size("vocab_size", config.vocab_size);
  reader.Size("hidden_size", config.hidden_size);
  reader.Size("intermediate_size", config.intermediate_size);
  reader.Size("num_hidden_layers", config.num_hidden_layers);
  reader.Size("num_attention_heads", config.num_attention_heads);
  DISTILL_RETURN_IF_ERROR(reader.status());
  // Qwen2Config's default where the key is missing is 32; null means as many as there are heads.
  const bool is_missing = !document.contains("num_key_value_heads");
  config.num_key_value_heads = config.model_type == "qwen2" && is_missing ? 32 : config.num_attention_heads;
  reader.Size("num_key_value_heads", config.num_key_value_heads);
  if (document.contains("head_dim") && !document["head_dim"].is_null()) {
    reader.Size("head_dim", config.head_dim);
  } else {
    reader.Multiple("hidden_size", config.hidden_size, "num_attention_heads", config.num_attention_heads);
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  reader.Number("rms_norm_eps", config.rms_norm_eps);
  reader.Probability("attention_dropout", config.attention_dropout);
  reader.Number("initializer_range", config.initializer_range);
  reader.Bool("tie_word_embeddings", config.tie_word_embeddings);
  reader.Multiple("num_attention_heads", config.num_attention_heads, "num_key_value_heads", config.num_key_value_heads);
  DISTILL_RETURN_IF_ERROR(reader.status());
  if (config.num_hidden_layers > kMaxLayers)
    return Refuse("num_hidden_layers", config.num_hidden_layers, "it is damaged");
  if (config.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("\"head_dim\": ", config.head_dim, " is odd; RoPE turns pairs"));
  }
  return absl::OkStatus();
}

absl::Status ReadBiases(const json& document, DecoderConfig& config) {
  ConfigReader reader(document);
  bool attention_bias = config.model_type == "qwen2";
  reader.Bool("attention_bias", attention_bias);
  reader.Bool("mlp_bias", config.mlp_bias);
  DISTILL_RETURN_IF_ERROR(reader.status());
  if (config.model_type == "qwen2") {
    if (!attention_bias) return Refuse("attention_bias", false, "qwen2 always has biases on q, k and v");
    if (config.mlp_bias) return Refuse("mlp_bias", true, "qwen2 has none");
  }
  config.query_key_value_bias = attention_bias;
  config.output_bias = attention_bias && config.model_type == "llama";
  return absl::OkStatus();
}

absl::Status RequireFullAttention(const json& document, const DecoderConfig& config) {
  // Qwen2 looks at sliding_window only together with use_sliding_window, which is refused.
  const auto window = document.find("sliding_window");
  if (config.model_type != "qwen2" && window != document.end() && !window->is_null()) {
    return Refuse("sliding_window", *window, "only full attention is");
  }
  const auto layers = document.find("layer_types");
  if (layers == document.end() || layers->is_null()) return absl::OkStatus();
  if (!layers->is_array() || static_cast<int64_t>(layers->size()) != config.num_hidden_layers) {
    return Refuse("layer_types", *layers, absl::StrCat("a list of ", config.num_hidden_layers, " layers is"));
  }
  for (const json& layer : *layers) {
    if (layer != "full_attention") return Refuse("layer_types", layer, "only \"full_attention\" is");
  }
  return absl::OkStatus();
}

// The rope fields and the name of the field that holds them: rope_scaling (older form) or rope_parameters.
absl::StatusOr<std::pair<std::string, json>> RopeObject(const json& document) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const auto found = document.find(name);
    if (found == document.end() || found->is_null()) continue;
    if (!found->is_object()) return Refuse(name, *found, "an object is");
    if (!found->empty()) return std::pair<std::string, json>(name, *found);
  }
  return std::pair<std::string, json>("rope_parameters", json::object());
}

bool IsRopeField(const std::string& key, const json& value, bool is_llama3) {
  if (key == "rope_type" || key == "type" || key == "rope_theta" || value.is_null()) return true;
  if (key == "partial_rotary_factor") return value == 1;
  return is_llama3 && (key == "factor" || key == "low_freq_factor" || key == "high_freq_factor" ||
                       key == "original_max_position_embeddings");
}

absl::Status ReadRope(const json& document, DecoderConfig& config) {
  DISTILL_ASSIGN_OR_RETURN(const auto named, RopeObject(document));
  const auto& [name, rope] = named;
  ConfigReader outer(document), inner(rope);
  outer.Number("rope_theta", config.rope_theta);
  inner.Number("rope_theta", config.rope_theta);
  const json* type_field = inner.Find("rope_type") != nullptr ? inner.Find("rope_type") : inner.Find("type");
  const json type = type_field == nullptr ? json("default") : *type_field;
  const bool is_llama3 = type == "llama3";
  if (type != "default" && !is_llama3) {
    return Refuse(absl::StrCat(name, ".rope_type"), type, "supported are \"default\" and \"llama3\"");
  }
  for (const auto& [key, value] : rope.items()) {
    if (IsRopeField(key, value, is_llama3)) continue;
    return Refuse(absl::StrCat(name, ".", key), value,
                  absl::StrCat("rope of type ", Shown(type), " has no such field"));
  }
  if (is_llama3) {
    Llama3RopeScaling& scaling = config.llama3_scaling.emplace();
    inner.RequiredNumber("factor", scaling.factor);
    inner.RequiredNumber("low_freq_factor", scaling.low_freq_factor);
    inner.RequiredNumber("high_freq_factor", scaling.high_freq_factor);
    // As transformers looks for it: the top level first, then the rope fields, then the model's own length.
    scaling.original_max_position_embeddings = config.model_type == "qwen2" ? 32768 : 2048;
    outer.Number("max_position_embeddings", scaling.original_max_position_embeddings);
    inner.Number("original_max_position_embeddings", scaling.original_max_position_embeddings);
    outer.Number("original_max_position_embeddings", scaling.original_max_position_embeddings);
    if (scaling.high_freq_factor <= scaling.low_freq_factor) {
      inner.Fail("\"high_freq_factor\" must be above \"low_freq_factor\"");
    }
  }
  DISTILL_RETURN_IF_ERROR(outer.status());
  return Annotate(inner.status(), name);
}

absl::Status Parse(const std::string& text, const std::string& name, DecoderConfig& config) {
  DISTILL_ASSIGN_OR_RETURN(const json document, ParseConfigObject(text));
  DISTILL_ASSIGN_OR_RETURN(config.model_type, ReadModelType(document, {"qwen2", "llama"}));
  DISTILL_RETURN_IF_ERROR(RefuseOtherComputations(document, kDecoderFields));
  DISTILL_RETURN_IF_ERROR(ReadSizes(document, config));
  DISTILL_RETURN_IF_ERROR(ReadPaddingId(document, config.vocab_size, config.pad_token_id));
  DISTILL_RETURN_IF_ERROR(ReadBiases(document, config));
  DISTILL_RETURN_IF_ERROR(RequireFullAttention(document, config));
  DISTILL_RETURN_IF_ERROR(ReadRope(document, config));
  WarnOfUnknownFields(document, kDecoderFields, name);
  config.json = text;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> ParseStopIds(const std::string& text) {
  DISTILL_ASSIGN_OR_RETURN(const json document, ParseConfigObject(text));
  const json value = document.value("eos_token_id", json());
  std::vector<int32_t> ids;
  if (value.is_null()) return ids;
  for (const json& id : value.is_array() ? value : json::array({value})) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) {
      return absl::InvalidArgumentError("\"eos_token_id\" must be a token's id or a list of them");
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace

absl::StatusOr<DecoderConfig> ParseDecoderConfig(const std::string& json, const std::string& name) {
  DecoderConfig config;
  DISTILL_RETURN_IF_ERROR(Annotate(Parse(json, name, config), name));
  return config;
}

absl::StatusOr<DecoderConfig> ReadDecoderConfig(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/config.json");
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseDecoderConfig(text, path);
}

absl::StatusOr<std::vector<int32_t>> ReadStopIds(const std::string& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::string path = JoinPath(folder, name);
    if (!FileExists(path)) continue;
    DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    absl::StatusOr<std::vector<int32_t>> ids = ParseStopIds(text);
    if (!ids.ok()) return Annotate(ids.status(), path);
    if (!ids->empty()) return ids;
  }
  return std::vector<int32_t>();
}

}  // namespace distill
