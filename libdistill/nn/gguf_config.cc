#include "libdistill/nn/gguf_config.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"
#include "libdistill/store/gguf.h"
#include "libdistill/store/weights_folder.h"

namespace distill {
namespace {

using nlohmann::ordered_json;

// The shortest decimal number that is this float32: 1e-06, where the next double is 9.99999997e-07.
double Decimal(float number) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  double decimal = number;
  std::from_chars(text, end, decimal);
  return decimal;
}

ordered_json JsonOf(const GgufValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<float>(&value)) return Decimal(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return nullptr;  // an array: of each layer another one
}

// Copies what the file has of the model's architecture.
class Copier {
 public:
  Copier(const GgufMetadata& metadata, ordered_json& config) : metadata_(metadata), config_(config) {}

  ordered_json Get(const std::string& key) const {
    const GgufValue* value = FindOfModel(metadata_, key);
    return value == nullptr ? ordered_json() : JsonOf(*value);
  }
  void Copy(const char* field, const std::string& key) {
    const ordered_json value = Get(key);
    if (!value.is_null()) config_[field] = value;
  }
  absl::Status Require(const char* field, const std::string& key) {
    Copy(field, key);
    if (config_.contains(field)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("its metadata has no single \"", key,
                                                   "\" of the architecture; copy the ",
                                                   "config.json of the original model into the folder"));
  }

 private:
  const GgufMetadata& metadata_;
  ordered_json& config_;
};

absl::Status RequireNo(const Copier& copier, const std::string& key) {
  const ordered_json value = copier.Get(key);
  if (value.is_null() || value == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("its metadata has \"", key, "\": ", value.dump(),
                                                 "; copy the config.json of the original model into the folder"));
}

absl::Status AddRope(const GgufFile& file, const Copier& copier, ordered_json& config) {
  if (file.has_rope_factors()) {
    return absl::InvalidArgumentError(
        "it has a table of factors for the rotary frequencies (rope_freqs.weight), and not how they were made: copy "
        "the "
        "config.json of the original model into the folder");
  }
  const ordered_json rotated = copier.Get("rope.dimension_count");
  if (!rotated.is_null() && config.contains("head_dim") && rotated != config["head_dim"]) {
    const ordered_json& size = config["head_dim"];
    if (!rotated.is_number_integer() || !size.is_number_integer() || size.get<int64_t>() <= 0) {
      return absl::InvalidArgumentError(absl::StrCat("its metadata has \"rope.dimension_count\": ", rotated.dump(),
                                                     " for heads of ", size.dump(), " elements; both are counts"));
    }
    config["partial_rotary_factor"] = rotated.get<double>() / size.get<double>();
  }
  const ordered_json type = copier.Get("rope.scaling.type");
  if (type.is_null() || type == "none") return RequireNo(copier, "rope.scale_linear");
  config["rope_scaling"] = {{"rope_type", type}};
  for (const auto& [field, key] :
       {std::pair("factor", "rope.scaling.factor"),
        std::pair("original_max_position_embeddings", "rope.scaling.original_context_length")}) {
    const ordered_json value = copier.Get(key);
    if (!value.is_null()) config["rope_scaling"][field] = value;
  }
  return absl::OkStatus();
}

// The fields of transformers' config.json, of a family whose names GgufFile knows.
absl::StatusOr<std::string> ConfigOf(const GgufFile& file, const WeightsFolder& weights) {
  ordered_json config;
  Copier copier(file.metadata(), config);
  config["model_type"] = std::get<std::string>(file.metadata().at("general.architecture"));
  const TensorView* embedding = weights.Find("model.embed_tokens.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return absl::InvalidArgumentError("it has no matrix \"token_embd.weight\"");
  }
  config["vocab_size"] = embedding->shape[0];
  DISTILL_RETURN_IF_ERROR(copier.Require("hidden_size", "embedding_length"));
  DISTILL_RETURN_IF_ERROR(copier.Require("intermediate_size", "feed_forward_length"));
  DISTILL_RETURN_IF_ERROR(copier.Require("num_hidden_layers", "block_count"));
  DISTILL_RETURN_IF_ERROR(copier.Require("num_attention_heads", "attention.head_count"));
  config["num_key_value_heads"] = config["num_attention_heads"];
  copier.Copy("num_key_value_heads", "attention.head_count_kv");
  copier.Copy("head_dim", "attention.key_length");
  DISTILL_RETURN_IF_ERROR(copier.Require("rms_norm_eps", "attention.layer_norm_rms_epsilon"));
  copier.Copy("max_position_embeddings", "context_length");
  config["rope_theta"] = 10000.0;
  copier.Copy("rope_theta", "rope.freq_base");
  config["hidden_act"] = "silu";
  config["tie_word_embeddings"] = weights.Find("lm_head.weight") == nullptr;
  if (config["model_type"] == "llama") {
    config["attention_bias"] = weights.Find("model.layers.0.self_attn.q_proj.bias") != nullptr;
    config["mlp_bias"] = weights.Find("model.layers.0.mlp.up_proj.bias") != nullptr;
  }
  DISTILL_RETURN_IF_ERROR(RequireNo(copier, "expert_count"));
  DISTILL_RETURN_IF_ERROR(RequireNo(copier, "attention.sliding_window"));
  DISTILL_RETURN_IF_ERROR(AddRope(file, copier, config));
  config["torch_dtype"] = "bfloat16";
  return config.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

// The model that it was made from, as far as its metadata say.
std::string OriginalOf(const GgufMetadata& metadata) {
  for (const char* key : {"general.base_model.0.repo_url", "general.source.repo_url", "general.repo_url",
                          "general.base_model.0.name", "general.name"}) {
    const std::string text = GgufText(metadata, key);
    if (!text.empty()) return absl::StrCat(text, " (by the file's ", key, ")");
  }
  return "the model that it was made from";
}

}  // namespace

absl::StatusOr<std::string> ReadConfigJson(const std::string& folder) {
  const std::string path = JoinPath(folder, "config.json");
  if (FileExists(path)) return ReadFile(path);
  const absl::StatusOr<std::vector<std::string>> names = GgufFilesIn(folder);
  if (absl::IsFailedPrecondition(names.status())) return names.status();
  if (!names.ok() || names->empty()) return ReadFile(path);  // whose error says what is wrong
  const std::string first = JoinPath(folder, names->front());
  DISTILL_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(first));
  DISTILL_ASSIGN_OR_RETURN(const WeightsFolder weights, WeightsFolder::Open(folder));
  absl::StatusOr<std::string> config = ConfigOf(file, weights);
  if (!config.ok()) return Annotate(config.status(), first);
  return config;
}

absl::Status CheckGgufTokenizer(const std::string& folder) {
  if (!WeightsFolder::IsGguf(folder)) return absl::OkStatus();
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"}) {
    if (FileExists(JoinPath(folder, name))) return absl::OkStatus();
  }
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, GgufFilesIn(folder));
  DISTILL_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(JoinPath(folder, names.front())));
  return absl::FailedPreconditionError(
      absl::StrCat(folder, " has no tokenizer beside ", names.front(), ", and the one within is not read: copy ",
                   "tokenizer.json and tokenizer_config.json of ", OriginalOf(file.metadata()), " into the folder"));
}

}  // namespace distill
