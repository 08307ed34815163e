#include "bench/overlap/encoder.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "absl/strings/str_cat.h"

namespace distill {
namespace {

torch::Tensor Random(c10::IntArrayRef shape) { return torch::randn(shape) * 0.02; }

}  // namespace

Encoder::Encoder() {
  words_ = register_parameter("words", Random({kWords, kWidth}));
  positions_ = register_parameter("positions", Random({kPositions, kWidth}));
  for (int64_t l = 0; l < kLayers; ++l) {
    const std::string name = absl::StrCat("layer", l, "_");
    Layer layer;
    layer.query = AddLinear(name + "query", kWidth, kWidth);
    layer.key = AddLinear(name + "key", kWidth, kWidth);
    layer.value = AddLinear(name + "value", kWidth, kWidth);
    layer.out = AddLinear(name + "out", kWidth, kWidth);
    layer.norm1 = AddNorm(name + "norm1");
    layer.up = AddLinear(name + "up", 4 * kWidth, kWidth);
    layer.down = AddLinear(name + "down", kWidth, 4 * kWidth);
    layer.norm2 = AddNorm(name + "norm2");
    layers_.push_back(std::move(layer));
  }
}

Encoder::Linear Encoder::AddLinear(const std::string& name, int64_t out, int64_t in) {
  return {register_parameter(name + "_weight", Random({out, in})),
          register_parameter(name + "_bias", torch::zeros({out}))};
}

Encoder::Linear Encoder::AddNorm(const std::string& name) {
  return {register_parameter(name + "_weight", torch::ones({kWidth})),
          register_parameter(name + "_bias", torch::zeros({kWidth}))};
}

torch::Tensor Encoder::Attend(const Layer& layer, const torch::Tensor& x) {
  const int64_t batch = x.size(0), tokens = x.size(1);
  const auto heads = [&](const Linear& linear) {
    return at::linear(x, linear.weight, linear.bias).view({batch, tokens, kHeads, kWidth / kHeads}).transpose(1, 2);
  };
  const torch::Tensor mixed =
      at::scaled_dot_product_attention(heads(layer.query), heads(layer.key), heads(layer.value));
  return at::linear(mixed.transpose(1, 2).reshape({batch, tokens, kWidth}), layer.out.weight, layer.out.bias);
}

torch::Tensor Encoder::forward(const torch::Tensor& ids) {
  torch::Tensor x = at::embedding(words_, ids) + positions_.narrow(0, 0, ids.size(1));
  for (const Layer& layer : layers_) {
    x = at::layer_norm(x + Attend(layer, x), {kWidth}, layer.norm1.weight, layer.norm1.bias);
    const torch::Tensor inner = at::gelu(at::linear(x, layer.up.weight, layer.up.bias));
    x = at::layer_norm(x + at::linear(inner, layer.down.weight, layer.down.bias), {kWidth}, layer.norm2.weight,
                       layer.norm2.bias);
  }
  return x;
}

}  // namespace distill
