#include "libdistill/nn/encoder_config.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_reader.h"
#include "libdistill/nn/gguf_config.h"

namespace distill {
namespace {

using nlohmann::json;

// What the families call the same sizes.
struct SizeNames {
  const char *hidden, *intermediate, *layers, *heads;
};
constexpr SizeNames kBertSizes = {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"};
constexpr SizeNames kDistilBertSizes = {"dim", "hidden_dim", "n_layers", "n_heads"};

absl::Status ReadSizes(const json& document, EncoderConfig& config) {
  const bool is_bert = config.model_type != "distilbert";  // or RoBERTa, whose config.json has BERT's names
  const SizeNames& names = is_bert ? kBertSizes : kDistilBertSizes;
  ConfigReader reader(document);
  reader.Size("vocab_size", config.vocab_size);
  reader.Size(names.hidden, config.hidden_size);
  reader.Size(names.intermediate, config.intermediate_size);
  reader.Size(names.layers, config.num_hidden_layers);
  reader.Size(names.heads, config.num_attention_heads);
  reader.Size("max_position_embeddings", config.max_position_embeddings);
  reader.Number("initializer_range", config.initializer_range);
  if (is_bert) {
    config.type_vocab_size = 2;
    reader.Size("type_vocab_size", config.type_vocab_size);
    reader.Number("layer_norm_eps", config.layer_norm_eps);
  }
  DISTILL_RETURN_IF_ERROR(reader.status());
  reader.Multiple(names.hidden, config.hidden_size, names.heads, config.num_attention_heads);
  DISTILL_RETURN_IF_ERROR(reader.status());
  if (config.num_hidden_layers > kMaxLayers) return Refuse(names.layers, config.num_hidden_layers, "it is damaged");
  return absl::OkStatus();
}

absl::Status ReadDropout(const json& document, EncoderConfig& config) {
  const bool is_bert = config.model_type != "distilbert";
  ConfigReader reader(document);
  reader.Probability(is_bert ? "hidden_dropout_prob" : "dropout", config.hidden_dropout);
  reader.Probability(is_bert ? "attention_probs_dropout_prob" : "attention_dropout", config.attention_dropout);
  config.classifier_dropout = is_bert ? config.hidden_dropout : 0.2;
  reader.Probability(is_bert ? "classifier_dropout" : "seq_classif_dropout", config.classifier_dropout);
  if (is_bert) return reader.status();
  config.span_dropout = 0.1;
  reader.Probability("qa_dropout", config.span_dropout);
  return reader.status();
}

absl::Status ReadPadding(const json& document, EncoderConfig& config) {
  const bool is_roberta = config.model_type == "roberta";
  // The families' own defaults; null is no padding.
  config.pad_token_id = document.contains("pad_token_id") ? -1 : is_roberta ? 1 : 0;
  DISTILL_RETURN_IF_ERROR(ReadPaddingId(document, config.vocab_size, config.pad_token_id));
  if (!is_roberta) return absl::OkStatus();
  if (const auto id = document.find("pad_token_id"); id != document.end() && (id->is_null() || *id < 0)) {
    return Refuse("pad_token_id", *id, "RoBERTa's positions count from it: an id from 0 on is");
  }
  if (config.most_tokens() > 0) return absl::OkStatus();
  return Refuse("max_position_embeddings", config.max_position_embeddings,
                absl::StrCat("RoBERTa's positions begin behind pad_token_id, ", config.pad_token_id, ": more are"));
}

absl::Status Parse(const std::string& text, const std::string& name, EncoderConfig& config) {
  DISTILL_ASSIGN_OR_RETURN(const json document, ParseConfigObject(text));
  DISTILL_ASSIGN_OR_RETURN(config.model_type, ReadModelType(document, {"bert", "distilbert", "roberta"}));
  DISTILL_RETURN_IF_ERROR(RefuseOtherComputations(document, kEncoderFields));
  DISTILL_RETURN_IF_ERROR(ReadSizes(document, config));
  DISTILL_RETURN_IF_ERROR(ReadDropout(document, config));
  DISTILL_RETURN_IF_ERROR(ReadPadding(document, config));
  WarnOfUnknownFields(document, kEncoderFields, name);
  config.json = text;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EncoderConfig> ParseEncoderConfig(const std::string& json, const std::string& name) {
  EncoderConfig config;
  DISTILL_RETURN_IF_ERROR(Annotate(Parse(json, name, config), name));
  return config;
}

absl::StatusOr<int64_t> LabelsOf(const EncoderConfig& config) {
  int64_t labels = 2;
  if (config.json.empty()) return labels;
  DISTILL_ASSIGN_OR_RETURN(const json document, ParseConfigObject(config.json));
  ConfigReader reader(document);
  if (const json* names = reader.Find("id2label"); names != nullptr) {
    if (!names->is_object() || names->empty()) return Refuse("id2label", *names, "an object with each label's name is");
    return static_cast<int64_t>(names->size());
  }
  reader.Size("num_labels", labels);
  DISTILL_RETURN_IF_ERROR(reader.status());
  return labels;
}

absl::StatusOr<std::string> JsonWithHead(const EncoderConfig& config, const std::string& architecture, int64_t labels) {
  DISTILL_ASSIGN_OR_RETURN(const int64_t before, LabelsOf(config));
  auto document = nlohmann::ordered_json::parse(config.json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return absl::DataLossError("the model has no config.json to save");
  document["architectures"] = {architecture};
  if (before == labels) return document.dump();
  document.erase("num_labels");
  document["id2label"] = nlohmann::ordered_json::object();
  document["label2id"] = nlohmann::ordered_json::object();
  for (int64_t i = 0; i < labels; ++i) {
    const std::string name = absl::StrCat("LABEL_", i);
    document["id2label"][absl::StrCat(i)] = name;
    document["label2id"][name] = i;
  }
  return document.dump();
}

absl::StatusOr<EncoderConfig> ReadEncoderConfig(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const ConfigText config, ReadConfigJson(folder));
  return ParseEncoderConfig(config.text, config.name);
}

}  // namespace distill
