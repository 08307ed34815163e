// What the trainer needs of a language model: hidden states and the head that would turn them into logits,
// HeadInput(hidden) head_weight^T + head_bias, scaled and capped where the family does that.
//
// Losses take both (loss/distillation_loss.h), so that the logits of a whole batch never exist.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "absl/status/status.h"
#include "libdistill/nn/adapters.h"
#include "libdistill/nn/model_content.h"
#include "libdistill/nn/weight_gate.h"

namespace distill {

struct TokenLayout;  // nn/token_layout.h

// Shapes: B rows, T tokens, H hidden, V vocabulary.
struct TokenInput {
  torch::Tensor input_ids;  // int64 [B, T], padded on the right
  // For each row the starts of its documents and, last, the end of its tokens. Attention and positions start anew at
  // each document. Empty: every row is one document of T tokens.
  std::vector<std::vector<int64_t>> document_starts;
  // The order in which models work on these tokens; null: each model that is given them finds it anew.
  std::shared_ptr<const TokenLayout> layout = nullptr;
  // int64 [B, T], for encoders that tell parts of a text from one another by it (BERT's segments: 0 and 1); undefined:
  // all 0.
  torch::Tensor token_types = {};

  // Finds it for all models, and copies it to the device of input_ids. Throws c10::Error when document_starts do not
  // fit input_ids.
  void LayOut();
  // All that there is, on the device.
  std::vector<torch::Tensor> tensors() const;
};

// What a pass gives at some positions: the states that HiddenAt gives, and those of layers within the model.
struct LayerStates {
  torch::Tensor last;                 // [N, H]
  std::vector<torch::Tensor> layers;  // [N, H] each
};

class LanguageModel : public torch::nn::Module, public GatedModel, public HasContent, public HasAdapters {
 public:
  // [B, T, H]; rows of padding hold anything.
  virtual torch::Tensor Hidden(const TokenInput& input) = 0;
  // Some of its rows: [N, H], those at `positions`, int64 [N], indices into the flattened [B * T], each above the one
  // before and none of padding. A model may leave out what none of them needs.
  virtual torch::Tensor HiddenAt(const TokenInput& input, const torch::Tensor& positions) {
    const torch::Tensor flat = Hidden(input).flatten(0, 1);
    return flat.size(0) == positions.size(0) ? flat : flat.index_select(0, positions);
  }
  // Of the layers that StatesAt can be asked for; 0: there are none.
  virtual int64_t num_layers() const { return 0; }
  // The same states, and those of these layers at the same positions, as transformers counts its hidden_states: 0 are
  // the embeddings, i what block i gives, and num_layers() what HiddenAt gives. Throws c10::Error for other layers.
  virtual LayerStates StatesAt(const TokenInput& input, const torch::Tensor& positions,
                               const std::vector<int64_t>& layers) {
    TORCH_CHECK_VALUE(layers.empty(), "this model gives no states of its layers");
    return {HiddenAt(input, positions), {}};
  }
  // What comes before the head's product, token by token: [N, H] -> [N, H]. The states themselves where there is
  // nothing.
  virtual torch::Tensor HeadInput(const torch::Tensor& hidden) const { return hidden; }
  virtual torch::Tensor head_weight() const = 0;          // [V, H]
  virtual torch::Tensor head_bias() const { return {}; }  // [V], or undefined
  // Logits are logit_scale times the head's product, or, where logit_softcap is above 0,
  // softcap * tanh(scale * product / softcap): some families scale and cap them.
  virtual double logit_scale() const { return 1; }
  virtual double logit_softcap() const { return 0; }
  // [V, H], or undefined where ids are not looked up in a table. Its rows beyond the vocabulary stay as they are.
  virtual torch::Tensor embedding_weight() const { return {}; }

  // Writes into `folder`, made when missing, what loads the model again: its config, the weights as `dtype`, and copies
  // of the tokenizer files of `tokenizer_folder` (none when empty). Unimplemented: a model without such a format.
  [[nodiscard]] virtual absl::Status Save(const std::string& folder, const std::string& tokenizer_folder,
                                          torch::Dtype dtype) const {
    (void)folder, (void)tokenizer_folder, (void)dtype;
    return absl::UnimplementedError("this model has no folder format of its own");
  }
  // Whether Save reads weights by WeightsInOrder alone, so that a model that is sharded need not be gathered for it.
  virtual bool saves_in_order() const { return false; }
};

}  // namespace distill
