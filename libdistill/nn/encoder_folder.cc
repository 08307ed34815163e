#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/encoder.h"
#include "libdistill/nn/encoder_body.h"
#include "libdistill/nn/encoder_heads.h"
#include "libdistill/nn/model_folder.h"

namespace distill {
namespace {

// BERT's first folders call the weight and bias of a LayerNorm so.
std::string WithGammaAndBeta(const std::string& name) {
  return absl::StrReplaceAll(name, {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}});
}

// The pooler and the next-sentence head take no part; positions count from 0 anyway.
bool IsPassedOver(const std::string& name) {
  return absl::StartsWith(name, "bert.pooler.") || absl::StartsWith(name, "cls.seq_relationship.") ||
         absl::EndsWith(name, ".embeddings.position_ids") || absl::EndsWith(name, ".embeddings.token_type_ids");
}

WeightNames NamesOf(const EncoderConfig& config) {
  WeightNames names{.model_type = config.model_type,
                    .is_passed_over = IsPassedOver,
                    .others = [](const std::string& name) { return std::vector<std::string>{WithGammaAndBeta(name)}; }};
  if (config.model_type == "bert") {
    names.tied = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                  {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
  } else {
    names.tied = {{"vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"}};
  }
  return names;
}

// Any head of the families that is not this model's, and what no model has a use for.
bool IsOfAnotherHead(const std::string& name) {
  static constexpr const char* kHeads[] = {
      "cls.",          "vocab_transform.",       "vocab_layer_norm.", "vocab_projector.",
      "classifier.",   "pre_classifier.",        "qa_outputs.",       "bert.pooler.",
      "pooler.dense.", "embeddings.position_ids"};
  for (const char* head : kHeads) {
    if (absl::StartsWith(name, head)) return true;
  }
  return IsPassedOver(name);
}

// A folder of the body alone has its names without the prefix. `heads`: the paths of those that may be missing, which
// are then drawn.
WeightNames NamesWithHead(const EncoderConfig& config, std::vector<std::string> heads, uint64_t seed) {
  const auto others = [prefix = absl::StrCat(EncoderPrefix(config), ".")](const std::string& name) {
    const std::string bare(absl::StripPrefix(name, prefix));
    std::vector<std::string> names = {WithGammaAndBeta(name)};
    if (bare != name) names.insert(names.end(), {bare, WithGammaAndBeta(bare)});
    return names;
  };
  return {.model_type = config.model_type,
          .is_passed_over = IsOfAnotherHead,
          .others = others,
          .drawn = {.paths = std::move(heads), .range = config.initializer_range, .seed = seed}};
}

// A classifier that the folder has already is taken whole.
absl::Status CheckLabels(const std::string& folder, int64_t labels) {
  if (labels < 1) return absl::InvalidArgumentError(absl::StrCat("labels: ", labels, " is below 1"));
  DISTILL_ASSIGN_OR_RETURN(const SafetensorsFolder weights, SafetensorsFolder::Open(folder));
  const TensorView* head = weights.Find("classifier.weight");
  if (head == nullptr || head->shape.empty() || head->shape[0] == labels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(folder, ": its classifier has ", head->shape[0], " labels, not ",
                                                 labels, "; leave labels at 0 to take it, or load a folder ",
                                                 "without a classifier to have a new one"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Encoder>> LoadEncoder(const std::string& folder, const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
  return LoadModel(folder, NamesOf(config), options, [&](const torch::TensorOptions& weights) {
    std::shared_ptr<Encoder> model(new Encoder(config, weights, options.blocks_later && !weights.device().is_meta()));
    model->source_folder_ = folder;
    if (options.dropout) model->EnableDropout();
    return model;
  });
}

absl::StatusOr<std::shared_ptr<Encoder>> CreateEncoder(const std::string& folder, uint64_t seed,
                                                       const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
  return CreateModel(folder, options, [&] {
    std::shared_ptr<Encoder> model(new Encoder(config, seed, options.blocks_later));
    model->source_folder_ = folder;
    if (options.dropout) model->EnableDropout();
    return model;
  });
}

absl::Status Encoder::Save(const std::string& folder, const std::string& tokenizer_folder, torch::Dtype dtype) const {
  if (config().json.empty()) return LanguageModel::Save(folder, tokenizer_folder, dtype);
  return SaveModel(*this, config().json, folder, tokenizer_folder, dtype);
}

absl::StatusOr<std::shared_ptr<SequenceClassifier>> LoadClassifier(const std::string& folder,
                                                                   const ClassifierOptions& classifier,
                                                                   const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
  int64_t labels = classifier.labels;
  if (labels == 0) {
    DISTILL_ASSIGN_OR_RETURN(labels, LabelsOf(config));
  }
  DISTILL_RETURN_IF_ERROR(CheckLabels(folder, labels));
  const std::vector<std::string> heads = config.model_type == "bert"
                                             ? std::vector<std::string>{"bert.pooler.dense", "classifier"}
                                             : std::vector<std::string>{"pre_classifier", "classifier"};
  const WeightNames names = NamesWithHead(config, heads, classifier.seed);
  return LoadModel(folder, names, options, [&](const torch::TensorOptions& weights) {
    const bool blocks_later = options.blocks_later && !weights.device().is_meta();
    std::shared_ptr<SequenceClassifier> model(new SequenceClassifier(config, labels, weights, blocks_later));
    model->source_folder_ = folder;
    if (options.dropout) model->EnableDropout();
    return model;
  });
}

absl::StatusOr<std::shared_ptr<SpanModel>> LoadSpanModel(const std::string& folder, const LoadOptions& options,
                                                         uint64_t head_seed) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
  const WeightNames names = NamesWithHead(config, {"qa_outputs"}, head_seed);
  return LoadModel(folder, names, options, [&](const torch::TensorOptions& weights) {
    const bool blocks_later = options.blocks_later && !weights.device().is_meta();
    std::shared_ptr<SpanModel> model(new SpanModel(config, weights, blocks_later));
    model->source_folder_ = folder;
    if (options.dropout) model->EnableDropout();
    return model;
  });
}

absl::Status EncoderWithHead::Save(const std::string& folder, const std::string& tokenizer_folder,
                                   torch::Dtype dtype) const {
  if (config().json.empty())
    return absl::UnimplementedError("a model whose config came without its JSON has no folder");
  DISTILL_ASSIGN_OR_RETURN(const std::string json, JsonWithHead(config(), architecture(), outputs()));
  return SaveModel(*this, json, folder, tokenizer_folder, dtype);
}

}  // namespace distill
