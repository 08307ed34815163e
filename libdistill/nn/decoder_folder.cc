#include "absl/strings/match.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/decoder.h"
#include "libdistill/nn/model_folder.h"

namespace distill {
namespace {

WeightNames NamesOf(const DecoderConfig& config) {
  WeightNames names{.model_type = config.model_type, .is_passed_over = [](const std::string& name) {
                      return absl::EndsWith(name,
                                            ".rotary_emb.inv_freq");  // older savers kept it; config.json gives it too
                    }};
  if (config.tie_word_embeddings) names.tied["lm_head.weight"] = "model.embed_tokens.weight";
  return names;
}

}  // namespace

std::shared_ptr<Decoder> DecoderShapes(const DecoderConfig& config, torch::Dtype dtype) {
  return std::shared_ptr<Decoder>(new Decoder(config, torch::TensorOptions(torch::kMeta).dtype(dtype)));
}

absl::StatusOr<std::shared_ptr<Decoder>> LoadDecoder(const std::string& folder, const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, ReadDecoderConfig(folder));
  return LoadModel(folder, NamesOf(config), options, [&](const torch::TensorOptions& weights) {
    std::shared_ptr<Decoder> model(new Decoder(config, weights, options.blocks_later && !weights.device().is_meta()));
    model->source_folder_ = folder;
    model->drops_ = options.dropout;
    return model;
  });
}

absl::StatusOr<std::shared_ptr<Decoder>> CreateDecoder(const std::string& folder, uint64_t seed,
                                                       const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const DecoderConfig config, ReadDecoderConfig(folder));
  return CreateModel(folder, options, [&] {
    std::shared_ptr<Decoder> model(new Decoder(config, seed, options.blocks_later));
    model->source_folder_ = folder;
    model->drops_ = options.dropout;
    return model;
  });
}

absl::Status Decoder::Save(const std::string& folder, const std::string& tokenizer_folder, torch::Dtype dtype) const {
  if (config_.json.empty()) return LanguageModel::Save(folder, tokenizer_folder, dtype);
  return SaveDecoder(*this, folder, tokenizer_folder, dtype);
}

absl::Status SaveDecoder(const Decoder& model, const std::string& folder, const std::string& tokenizer_folder,
                         torch::Dtype dtype) {
  return SaveModel(model, model.config().json, folder, tokenizer_folder, dtype);
}

}  // namespace distill
