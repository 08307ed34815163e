// The embeddings and blocks of BERT, DistilBERT and RoBERTa, without a head; inside nn/ only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "libdistill/nn/encoder_config.h"
#include "libdistill/nn/gradient_sink.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/nn/model_folder.h"
#include "libdistill/nn/weight_gate.h"

namespace distill {

// A module that its model registers under EncoderPrefix, so that parameters carry transformers' names. The model is
// the one whose blocks may be kept by a gate.
class EncoderBody : public torch::nn::Module {
 public:
  // Weights that hold anything yet; `blocks_later`: as in LoadOptions.
  EncoderBody(const EncoderConfig& config, const torch::TensorOptions& options, bool blocks_later);
  ~EncoderBody() override;

  // What the last block gives, [B, T, H]. `sink`, or null: of the words' gradients. `recomputes`: each block's input
  // alone is kept. Throws c10::Error on a document of more than most_tokens() tokens, and on token types that the
  // family does not have.
  torch::Tensor Hidden(const TokenInput& input, const GatedModel& model, const std::shared_ptr<GradientSink>& sink,
                       bool recomputes) const;
  // The embedding of words, [V, H], and that of positions.
  torch::Tensor words() const;
  torch::Tensor positions() const;
  std::vector<std::vector<torch::Tensor>> BlockWeights() const;
  // Takes over those of a body of the same sizes; where this one has no token types, the positions take the row of type
  // 0. Without gradients.
  void CopyEmbeddings(const EncoderBody& other);
  // From then on states and probabilities are dropped in training, as the config says.
  void EnableDropout() { drops_ = true; }
  // `probability`, where something is to be dropped now.
  double DropoutNow(double probability) const { return drops_ && is_training() ? probability : 0; }
  const EncoderConfig& config() const { return config_; }

 private:
  struct Layers;
  torch::Tensor Embed(const torch::Tensor& ids, const TokenInput& input, const TokenLayout& layout,
                      const std::shared_ptr<GradientSink>& sink) const;
  torch::Tensor TypesOf(const TokenInput& input, const TokenLayout& layout) const;
  torch::Tensor PositionsOf(const torch::Tensor& ids, const TokenLayout& layout) const;

  const EncoderConfig config_;
  bool drops_ = false;
  std::unique_ptr<Layers> layers_;
};

// "bert", "distilbert" or "roberta".
std::string EncoderPrefix(const EncoderConfig& config);

// A body with random float32 weights on the CPU, and the same in the model's other parts: InitialiseWeights, but the
// padding token's embedding is 0, and RoBERTa's of its position, as in transformers.
void InitialiseEncoder(torch::nn::Module& model, const EncoderBody& body, uint64_t seed);

// What the files of encoders' folders call parameters: of a masked language model.
WeightNames EncoderNames(const EncoderConfig& config);
// For a model with another head. A folder of the body alone has its names without the prefix. `heads`: the paths of
// those that may be missing, which are then drawn.
WeightNames EncoderNamesWithHead(const EncoderConfig& config, std::vector<std::string> heads, uint64_t seed);

}  // namespace distill
