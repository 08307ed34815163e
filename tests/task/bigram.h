// The least that a language model can be: an embedding, and a head with a bias.
#pragma once

#include "libdistill/loss/distillation_loss.h"
#include "libdistill/nn/language_model.h"

namespace distill::testing {

class Bigram : public LanguageModel {
 public:
  Bigram(int64_t vocabulary, int64_t hidden, uint64_t seed) {
    torch::manual_seed(seed);
    embedding_ = register_parameter("embedding", torch::randn({vocabulary, hidden}));
    head_ = register_parameter("head", torch::randn({vocabulary, hidden}));
    bias_ = register_parameter("bias", torch::randn({vocabulary}));
  }
  torch::Tensor Hidden(const TokenInput& input) override {
    ++passes;
    return torch::embedding(embedding_, input.input_ids);
  }
  torch::Tensor head_weight() const override { return head_; }
  torch::Tensor head_bias() const override { return bias_; }
  torch::Tensor embedding_weight() const override { return embedding_; }
  double logit_scale() const override { return scaling.scale; }
  double logit_softcap() const override { return scaling.softcap; }

  int passes = 0;
  LogitScaling scaling;

 private:
  torch::Tensor embedding_, head_, bias_;
};

}  // namespace distill::testing
