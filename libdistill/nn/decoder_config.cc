#include "libdistill/nn/decoder_config.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_fields.h"
#include "libdistill/nn/config_reader.h"
#include "libdistill/nn/decoder_family.h"
#include "libdistill/nn/gguf_config.h"
#include "libdistill/nn/quantised_weights.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

using nlohmann::json;

absl::Status ReadHeads(const json& document, const DecoderFamily& family, DecoderConfig& config) {
  ConfigReader reader(document);
  reader.Size("num_attention_heads", config.num_attention_heads);
  DISTILL_RETURN_IF_ERROR(reader.status());
  // Null means as many as there are heads.
  const bool is_missing = !document.contains("num_key_value_heads");
  if (!is_missing || config.num_key_value_heads == 0) config.num_key_value_heads = config.num_attention_heads;
  reader.Size("num_key_value_heads", config.num_key_value_heads);
  if (reader.Find("head_dim") == nullptr && (document.contains("head_dim") || family.defaults.head_dim == 0)) {
    reader.Multiple("hidden_size", config.hidden_size, "num_attention_heads", config.num_attention_heads);
    config.head_dim = config.hidden_size / config.num_attention_heads;
  } else {
    reader.Size("head_dim", config.head_dim);
  }
  reader.Multiple("num_attention_heads", config.num_attention_heads, "num_key_value_heads", config.num_key_value_heads);
  DISTILL_RETURN_IF_ERROR(reader.status());
  if (config.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("\"head_dim\": ", config.head_dim, " is odd; RoPE rotates pairs"));
  }
  return absl::OkStatus();
}

absl::Status ReadSizes(const json& document, const DecoderFamily& family, DecoderConfig& config) {
  ConfigReader reader(document);
  reader.Size("vocab_size", config.vocab_size);
  reader.Size("hidden_size", config.hidden_size);
  reader.Size("intermediate_size", config.intermediate_size);
  reader.Size("num_hidden_layers", config.num_hidden_layers);
  DISTILL_RETURN_IF_ERROR(reader.status());
  if (config.num_hidden_layers > kMaxLayers) {
    return Refuse("num_hidden_layers", config.num_hidden_layers, "it is damaged");
  }
  DISTILL_RETURN_IF_ERROR(ReadHeads(document, family, config));
  reader.Number("rms_norm_eps", config.rms_norm_eps);
  reader.Probability("attention_dropout", config.attention_dropout);
  reader.Number("initializer_range", config.initializer_range);
  reader.Bool("tie_word_embeddings", config.tie_word_embeddings);
  return reader.status();
}

absl::Status ReadBiases(const json& document, const DecoderFamily& family, DecoderConfig& config) {
  ConfigReader reader(document);
  const char* field = family.bias_field.empty() ? "attention_bias" : family.bias_field.data();
  reader.Bool(field, config.query_key_value_bias);
  reader.Bool("mlp_bias", config.mlp_bias);
  DISTILL_RETURN_IF_ERROR(reader.status());
  if (family.bias_field == "attention_bias") config.output_bias = config.query_key_value_bias;
  if (family.bias_field.empty() && config.query_key_value_bias != family.defaults.query_key_value_bias) {
    return Refuse(
        field, config.query_key_value_bias,
        absl::StrCat(family.model_type, family.defaults.query_key_value_bias ? " always has biases on q, k and v"
                                                                             : " has no biases on q, k and v"));
  }
  if (config.mlp_bias && !IsAmong("mlp_bias", family.fields)) {
    return Refuse("mlp_bias", true, absl::StrCat(family.model_type, " has none"));
  }
  return absl::OkStatus();
}

absl::Status Parse(const std::string& text, const std::string& name, DecoderConfig& config) {
  DISTILL_ASSIGN_OR_RETURN(const json document, ParseConfigObject(text));
  std::vector<absl::string_view> families;
  for (const DecoderFamily& known : DecoderFamilies()) families.push_back(known.model_type);
  DISTILL_ASSIGN_OR_RETURN(const std::string type, ReadModelType(document, families));
  const DecoderFamily& family = *FindDecoderFamily(type);
  FamilyFields fields = kDecoderFields;
  fields.of_family = family.fields;
  config = family.defaults;
  config.model_type = type;
  DISTILL_RETURN_IF_ERROR(CheckQuantisation(document));
  DISTILL_RETURN_IF_ERROR(RefuseOtherComputations(document, fields));
  DISTILL_RETURN_IF_ERROR(ReadSizes(document, family, config));
  DISTILL_RETURN_IF_ERROR(ReadPaddingId(document, config.vocab_size, config.pad_token_id));
  DISTILL_RETURN_IF_ERROR(ReadBiases(document, family, config));
  DISTILL_ASSIGN_OR_RETURN(config.ropes[0], ReadRope(document, family.rope, config.head_dim));
  DISTILL_RETURN_IF_ERROR(family.read != nullptr ? family.read(document, config)
                                                 : ReadLayerTypes(
                                                       document, 0, [](int64_t) { return false; }, config));
  WarnOfUnknownFields(document, fields, name);
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
  DISTILL_ASSIGN_OR_RETURN(const ConfigText config, ReadConfigJson(folder));
  return ParseDecoderConfig(config.text, config.name);
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
