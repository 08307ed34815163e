#include "libdistill/nn/experts.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/nn/norm_and_gate.h"

// Shapes: N tokens, H hidden, F feed-forward size of an expert, E experts, k those of a token.
namespace distill {

using torch::Tensor;
using torch::TensorOptions;

FeedForward::FeedForward(torch::nn::Module& root, const std::string& path, const DecoderConfig& config, int64_t size,
                         const TensorOptions& options)
    : gate_kind_(config.gate) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return RegisterAt(root, absl::StrCat(path, ".", name), std::make_shared<Linear>(in, out, config.mlp_bias, options));
  };
  if (config.fuses_projections) {
    gate_and_up_ = linear("gate_up_proj", config.hidden_size, 2 * size);
  } else {
    gate_ = linear("gate_proj", config.hidden_size, size);
    up_ = linear("up_proj", config.hidden_size, size);
  }
  down_ = linear("down_proj", size, config.hidden_size);
}

Tensor FeedForward::Gated(const Tensor& x) const {
  if (gate_and_up_ != nullptr) return GatedUnit((*gate_and_up_)(x), gate_kind_);
  return GatedUnit((*gate_)(x), (*up_)(x), gate_kind_);
}

Experts::Experts(torch::nn::Module& root, const DecoderConfig& config, const TensorOptions& options)
    : config_(config.experts) {
  const int64_t hidden = config.hidden_size, count = config_.count, size = config_.size;
  if (config_.is_stacked) {
    router_ = RegisterAt(root, "mlp.router", std::make_shared<Linear>(hidden, count, /*has_bias=*/true, options));
    stacked_ = RegisterAt(root, "mlp.experts", std::make_shared<torch::nn::Module>());
    const auto weight = [&](const char* name, std::vector<int64_t> shape) {
      return stacked_->register_parameter(name, torch::empty(shape, options));
    };
    gate_up_ = weight("gate_up_proj", {count, hidden, 2 * size});
    gate_up_bias_ = weight("gate_up_proj_bias", {count, 2 * size});
    down_ = weight("down_proj", {count, size, hidden});
    down_bias_ = weight("down_proj_bias", {count, hidden});
    return;
  }
  router_ = RegisterAt(root, "mlp.gate", std::make_shared<Linear>(hidden, count, /*has_bias=*/false, options));
  for (int64_t i = 0; i < count; ++i) {
    separate_.emplace_back(root, absl::StrCat("mlp.experts.", i), config, size, options);
  }
  if (config_.shared_size == 0) return;
  shared_.emplace_back(root, "mlp.shared_expert", config, config_.shared_size, options);
  shared_gate_ =
      RegisterAt(root, "mlp.shared_expert_gate", std::make_shared<Linear>(hidden, 1, /*has_bias=*/false, options));
}

// gpt-oss takes the softmax of the chosen ones' logits, which is the same as normalising all experts' shares.
Experts::Routed Experts::Route(const Tensor& x) const {
  const Tensor logits = (*router_)(x);
  if (config_.is_stacked) {
    const auto [values, ids] = at::topk(logits, config_.per_token, 1);
    return {ids, at::softmax(values, 1)};
  }
  auto [shares, ids] = at::topk(at::softmax(logits, 1, torch::kFloat32), config_.per_token, 1);
  if (config_.normalises) shares = shares / shares.sum(1, /*keepdim=*/true);
  return {ids, shares.to(x.scalar_type())};
}

Tensor Experts::Expert(int64_t expert, const Tensor& x) const {
  if (!config_.is_stacked) return separate_[expert].down()(separate_[expert].Gated(x));
  const Tensor both = at::addmm(gate_up_bias_[expert], x, gate_up_[expert]);
  const Tensor pairs = both.view({x.size(0), config_.size, 2});
  const Tensor gate = pairs.select(2, 0).clamp_max(config_.gate_limit);
  const Tensor up = pairs.select(2, 1).clamp(-config_.gate_limit, config_.gate_limit);
  return at::addmm(down_bias_[expert], gate * at::sigmoid(gate * config_.gate_slope) * (up + 1), down_[expert]);
}

// Tokens are sorted by expert, so that each expert has one product, and what it gives goes back to their places.
Tensor Experts::operator()(const Tensor& x) const {
  const Routed routed = Route(x);
  const Tensor ids = routed.ids.flatten();
  const Tensor order = at::argsort(ids, /*stable=*/true, 0);
  const Tensor tokens = order.div(config_.per_token, "floor"), shares = routed.shares.flatten().index_select(0, order);
  const Tensor counts = at::bincount(ids, {}, config_.count).to(torch::kCPU);
  std::vector<Tensor> parts;
  int64_t first = 0;
  for (int64_t expert = 0; expert < config_.count; ++expert) {
    const int64_t count = counts.const_data_ptr<int64_t>()[expert];
    if (count == 0) continue;
    const Tensor out = Expert(expert, x.index_select(0, tokens.narrow(0, first, count)));
    parts.push_back(out * shares.narrow(0, first, count).unsqueeze(1));
    first += count;
  }
  Tensor sum = at::zeros_like(x);
  if (!parts.empty()) sum = sum.index_add(0, tokens, at::cat(parts));
  if (shared_.empty()) return sum;
  return sum + at::sigmoid((*shared_gate_)(x)) * shared_[0].down()(shared_[0].Gated(x));
}

}  // namespace distill
