#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/encoder.h"
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
  WeightNames names{.model_type = config.model_type, .is_passed_over = IsPassedOver, .older = WithGammaAndBeta};
  if (config.model_type == "bert") {
    names.tied = {{"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
                  {"cls.predictions.decoder.bias", "cls.predictions.bias"}};
  } else {
    names.tied = {{"vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"}};
  }
  return names;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Encoder>> LoadEncoder(const std::string& folder, const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
  return LoadModel(folder, NamesOf(config), options, [&](const torch::TensorOptions& weights) {
    std::shared_ptr<Encoder> model(new Encoder(config, weights, options.blocks_later && !weights.device().is_meta()));
    model->source_folder_ = folder;
    return model;
  });
}

absl::StatusOr<std::shared_ptr<Encoder>> CreateEncoder(const std::string& folder, uint64_t seed,
                                                       const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
  return CreateModel(folder, options, [&] {
    std::shared_ptr<Encoder> model(new Encoder(config, seed, options.blocks_later));
    model->source_folder_ = folder;
    return model;
  });
}

absl::Status Encoder::Save(const std::string& folder, const std::string& tokenizer_folder, torch::Dtype dtype) const {
  if (config_.json.empty()) return LanguageModel::Save(folder, tokenizer_folder, dtype);
  return SaveModel(*this, config_.json, folder, tokenizer_folder, dtype);
}

}  // namespace distill
