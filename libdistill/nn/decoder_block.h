// One layer of a decoder, whatever its family: attention and a feed-forward part, each added to what came in; inside
// nn/ only.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <torch/nn/module.h>

#include "libdistill/nn/attention_traits.h"
#include "libdistill/nn/decoder_config.h"
#include "libdistill/nn/experts.h"
#include "libdistill/nn/layers.h"
#include "libdistill/nn/norm_and_gate.h"
#include "libdistill/nn/rotary.h"

namespace distill {

// Shapes: P tokens in the flat order of token_layout.h, H hidden, A query heads, K key-value heads, D head size.

struct Norm : torch::nn::Module {
  Norm(int64_t size, const DecoderConfig& config, const torch::TensorOptions& options)
      : epsilon(config.rms_norm_eps), kind(config.norm) {
    weight = register_parameter("weight", torch::empty({size}, options));
  }
  torch::Tensor operator()(const torch::Tensor& x) const { return RmsNorm(x, weight, epsilon, kind); }

  const double epsilon;
  const NormKind kind;
  torch::Tensor weight;  // [size]
};

class DecoderBlock : public torch::nn::Module {
 public:
  DecoderBlock(const DecoderConfig& config, const DecoderLayer& layer, const torch::TensorOptions& options);

  // query [P, A, D], keys and values [P, K, D] -> [P, A * D].
  using Attend = std::function<torch::Tensor(const torch::Tensor& query, const torch::Tensor& keys,
                                             const torch::Tensor& values, const AttentionTraits& traits)>;
  // x [P, H] -> [P, H]. `angles`: of each rope of the config. `wanted`: the places of the tokens whose states are asked
  // for, int64 [N] of P, or undefined for all.
  torch::Tensor Forward(const torch::Tensor& x, const std::vector<RotaryAngles>& angles, const torch::Tensor& wanted,
                        const Attend& attend) const;

 private:
  std::shared_ptr<Norm> MakeNorm(const char* path, int64_t size, const torch::TensorOptions& options);
  void MakeAttention(const torch::TensorOptions& options);
  std::array<torch::Tensor, 3> QueryKeysValues(const torch::Tensor& normed) const;
  torch::Tensor Attended(const torch::Tensor& x, const std::vector<RotaryAngles>& angles, const Attend& attend) const;
  torch::Tensor Normed(const torch::Tensor& x, const std::shared_ptr<Norm>& norm) const;

  const DecoderConfig config_;
  const DecoderLayer layer_;
  std::shared_ptr<Linear> q_proj_, k_proj_, v_proj_, qkv_proj_, o_proj_;  // qkv_proj_ in place of the first three
  std::shared_ptr<Norm> q_norm_, k_norm_;
  std::optional<FeedForward> feed_forward_;
  std::optional<Experts> experts_;
  std::shared_ptr<Norm> before_attention_, after_attention_, before_mlp_, after_mlp_;  // null: none
  AttentionTraits attention_;
};

}  // namespace distill
