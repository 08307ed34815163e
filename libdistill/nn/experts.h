// A mixture of experts (Shazeer et al. 2017) in place of one feed-forward part: a router sends each token to a few of
// them, and what they give is added up by its shares; inside nn/ only.
#pragma once

#include <memory>
#include <vector>

#include <torch/nn/module.h>

#include "libdistill/nn/decoder_config.h"
#include "libdistill/nn/layers.h"

namespace distill {

// act(gate(x)) * up(x), and a projection of that: the feed-forward part of a block, and each expert of Qwen's.
class FeedForward {
 public:
  // Registers its projections under `path` below `root`: transformers' names.
  FeedForward(torch::nn::Module& root, const std::string& path, const DecoderConfig& config, int64_t size,
              const torch::TensorOptions& options);
  torch::Tensor Gated(const torch::Tensor& x) const;  // [N, H] -> [N, F]
  const Linear& down() const { return *down_; }

 private:
  const GateKind gate_kind_;
  std::shared_ptr<Linear> gate_, up_, gate_and_up_, down_;  // gate_and_up_ in place of the first two
};

class Experts {
 public:
  Experts(torch::nn::Module& root, const DecoderConfig& config, const torch::TensorOptions& options);
  torch::Tensor operator()(const torch::Tensor& x) const;  // [N, H] -> [N, H]

 private:
  struct Routed {
    torch::Tensor ids;     // int64 [N, per_token]
    torch::Tensor shares;  // [N, per_token], of x's type
  };
  Routed Route(const torch::Tensor& x) const;
  torch::Tensor Expert(int64_t expert, const torch::Tensor& x) const;

  const ExpertsConfig config_;
  std::shared_ptr<Linear> router_;
  std::vector<FeedForward> separate_;
  std::shared_ptr<torch::nn::Module> stacked_;
  torch::Tensor gate_up_, gate_up_bias_, down_, down_bias_;  // of stacked_: [E, H, 2F], [E, 2F], [E, F, H], [E, H]
  std::vector<FeedForward> shared_;                          // one, or none
  std::shared_ptr<Linear> shared_gate_;
};

}  // namespace distill
