#include "libdistill/nn/encoder.h"

#include "libdistill/core/status_macros.h"
#include "libdistill/nn/encoder_body.h"
#include "libdistill/nn/encoder_names.h"
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

struct Bias : torch::nn::Module {
  Bias(int64_t size, const TensorOptions& options) { bias = register_parameter("bias", torch::empty({size}, options)); }
  Tensor bias;
};

}  // namespace

struct Encoder::Head {
  Head(const EncoderConfig& c, const TensorOptions& options, Encoder& root) {
    const HeadNames& names = c.model_type == "bert" ? kBertHead : kDistilBertHead;
    bias = RegisterAt(root, names.bias, std::make_shared<Bias>(c.vocab_size, options));
    dense = RegisterAt(root, names.dense,
                       std::make_shared<Linear>(c.hidden_size, c.hidden_size, /*has_bias=*/true, options));
    norm = RegisterAt(root, names.norm, std::make_shared<LayerNorm>(c.hidden_size, c.layer_norm_eps, options));
  }

  std::shared_ptr<Bias> bias;
  std::shared_ptr<Linear> dense;
  std::shared_ptr<LayerNorm> norm;
};

Encoder::Encoder(const EncoderConfig& config, const TensorOptions& options, bool blocks_later)
    : body_(register_module(EncoderPrefix(config), std::make_shared<EncoderBody>(config, options, blocks_later))),
      head_(std::make_unique<Head>(config, options, *this)) {}

Encoder::Encoder(const EncoderConfig& config, uint64_t seed) : Encoder(config, seed, /*blocks_later=*/false) {}

Encoder::Encoder(const EncoderConfig& config, uint64_t seed, bool blocks_later)
    : Encoder(config, TensorOptions(torch::kFloat32), blocks_later) {
  InitialiseEncoder(*this, *body_, seed);
}

Encoder::~Encoder() = default;

Tensor Encoder::Hidden(const TokenInput& input) { return body_->Hidden(input, *this, gradient_sink(), checkpoints_); }

Tensor Encoder::HeadInput(const Tensor& hidden) const { return (*head_->norm)(at::gelu((*head_->dense)(hidden))); }

Tensor Encoder::head_weight() const { return body_->words(); }

Tensor Encoder::head_bias() const { return head_->bias->bias; }

std::vector<std::vector<Tensor>> Encoder::BlockWeights() const { return body_->BlockWeights(); }

const EncoderConfig& Encoder::config() const { return body_->config(); }

void Encoder::EnableDropout() { body_->EnableDropout(); }

absl::StatusOr<std::shared_ptr<Encoder>> LoadEncoder(const std::string& folder, const LoadOptions& options) {
  DISTILL_ASSIGN_OR_RETURN(const EncoderConfig config, ReadEncoderConfig(folder));
  return LoadModel(folder, EncoderNames(config), options, [&](const TensorOptions& weights) {
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

}  // namespace distill
