// A model of DistilBERT's shape in plain tensor operations: 66 million parameters in 6 layers of hidden size 768 over
// an embedding of 30,522 words. What the benchmark measures is its backward pass, not what it learns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/nn/module.h>

namespace distill {

class Encoder : public torch::nn::Module {
 public:
  static constexpr int64_t kWords = 30522, kPositions = 512, kWidth = 768, kHeads = 12, kLayers = 6;

  Encoder();
  // ids: [B batch, T tokens] -> [B, T, kWidth]
  torch::Tensor forward(const torch::Tensor& ids);
  const torch::Tensor& words() const { return words_; }  // [kWords, kWidth]

 private:
  struct Linear {
    torch::Tensor weight, bias;
  };
  struct Layer {
    Linear query, key, value, out, up, down, norm1, norm2;
  };
  Linear AddLinear(const std::string& name, int64_t out, int64_t in);
  Linear AddNorm(const std::string& name);
  static torch::Tensor Attend(const Layer& layer, const torch::Tensor& x);

  torch::Tensor words_, positions_;
  std::vector<Layer> layers_;
};

}  // namespace distill
