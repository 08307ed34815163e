#include "libdistill/nn/encoder.h"

#include "libdistill/core/status_macros.h"
#include "libdistill/nn/encoder_body.h"
#include "libdistill/nn/layers.h"
#include "libdistill/nn/model_folder.h"

// Shapes: N tokens, H hidden, V vocabulary.
namespace distill {
namespace {

using torch::Tensor;
using torch::TensorOptions;

// Where a family keeps the head.
struct HeadNames {
  const char *dense, *norm, *bias;
};
constexpr HeadNames kBertHead = {.dense = "cls.predictions.transform.dense",
                                 .norm = "cls.predictions.transform.LayerNorm",
                                 .bias = "cls.predictions"};
constexpr HeadNames kDistilBertHead = {
    .dense = "vocab_transform", .norm = "vocab_layer_norm", .bias = "vocab_projector"};
constexpr HeadNames kRobertaHead = {.dense = "lm_head.dense", .norm = "lm_head.layer_norm", .bias = "lm_head"};

const HeadNames& HeadNamesOf(const EncoderConfig& config) {
  if (config.model_type == "roberta") return kRobertaHead;
  return config.model_type == "bert" ? kBertHead : kDistilBertHead;
}

struct Bias : torch::nn::Module {
  Bias(int64_t size, const TensorOptions& options) { bias = register_parameter("bias", torch::empty({size}, options)); }
  Tensor bias;
};

}  // namespace

Encoder::Encoder(const EncoderConfig& config, const TensorOptions& options, bool blocks_later)
    : body_(register_module(EncoderPrefix(config), std::make_shared<EncoderBody>(config, options, blocks_later))) {
  const HeadNames& names = HeadNamesOf(config);
  const int64_t h = config.hidden_size;
  head_bias_ = RegisterAt(*this, names.bias, std::make_shared<Bias>(config.vocab_size, options))->bias;
  dense_ = RegisterAt(*this, names.dense, std::make_shared<Linear>(h, h, /*has_bias=*/true, options));
  norm_ = RegisterAt(*this, names.norm, std::make_shared<LayerNorm>(h, config.layer_norm_eps, options));
}

Encoder::Encoder(const EncoderConfig& config, uint64_t seed, bool blocks_later)
    : Encoder(config, TensorOptions(torch::kFloat32), blocks_later) {
  InitialiseEncoder(*this, *body_, seed);
}

Tensor Encoder::Hidden(const TokenInput& input) { return body_->Hidden(input, *this, gradient_sink(), checkpoints_); }

Tensor Encoder::HeadInput(const Tensor& hidden) const { return (*norm_)(at::gelu((*dense_)(hidden))); }

Tensor Encoder::head_weight() const { return body_->words(); }

std::vector<std::vector<Tensor>> Encoder::BlockWeights() const { return body_->BlockWeights(); }

std::vector<Tensor> Encoder::HeadWeights() const {
  return {head_bias_, dense_->weight, dense_->bias, norm_->weight, norm_->bias};
}

const EncoderConfig& Encoder::config() const { return body_->config(); }

void Encoder::EnableDropout() { body_->EnableDropout(); }

std::shared_ptr<Encoder> EncoderShapes(const EncoderConfig& config) {
  return std::shared_ptr<Encoder>(new Encoder(config, TensorOptions(torch::kMeta)));
}

absl::StatusOr<std::shared_ptr<Encoder>> LoadEncoder(const std::string& folder, const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
  return LoadModel(folder, EncoderNames(config), options, [&](const TensorOptions& weights, bool blocks_later) {
    return std::shared_ptr<Encoder>(new Encoder(config, weights, blocks_later));
  });
}

absl::StatusOr<std::shared_ptr<Encoder>> CreateEncoder(const std::string& folder, uint64_t seed,
                                                       const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
  return CreateModel(folder, options, [&] { return std::make_shared<Encoder>(config, seed, options.blocks_later); });
}

absl::Status Encoder::Save(const std::string& folder, const std::string& tokenizer_folder, torch::Dtype dtype) const {
  if (config().json.empty()) return LanguageModel::Save(folder, tokenizer_folder, dtype);
  return SaveModel(*this, config().json, folder, tokenizer_folder, dtype);
}

}  // namespace distill
