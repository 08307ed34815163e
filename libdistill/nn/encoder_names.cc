#include "libdistill/nn/encoder_names.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "libdistill/nn/encoder_body.h"

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

}  // namespace

WeightNames EncoderNames(const EncoderConfig& config) {
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

WeightNames EncoderNamesWithHead(const EncoderConfig& config, std::vector<std::string> heads, uint64_t seed) {
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

}  // namespace distill
