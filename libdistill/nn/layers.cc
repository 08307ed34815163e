#include "libdistill/nn/layers.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "libdistill/nn/dropout.h"
#include "libdistill/nn/weight_gate.h"
#include "libdistill/tensor/unbacked.h"

namespace distill {

using torch::Tensor;
using torch::TensorOptions;

Linear::Linear(int64_t in, int64_t out, bool has_bias, const TensorOptions& options) {
  weight = register_parameter("weight", torch::empty({out, in}, options));
  if (has_bias) bias = register_parameter("bias", torch::empty({out}, options));
}

Tensor Linear::AddTo(const Tensor& residual, const Tensor& x) const {
  if (bias.defined() || IsPackedFor(x)) return residual + (*this)(x);
  return WithAdapter(at::addmm(residual, x, weight.t()), x);
}

void Linear::AddAdapter(const Tensor& a, const Tensor& b, double scale, double dropout) {
  const auto add = [this](const char* name, const Tensor& values) {
    return register_module(name, std::make_shared<torch::nn::Module>())->register_parameter("weight", values);
  };
  lora_a = add("lora_A", a);
  lora_b = add("lora_B", b);
  lora_scale = scale;
  lora_dropout = dropout;
}

Tensor Linear::WithAdapter(Tensor product, const Tensor& x) const {
  if (!has_adapter()) return product;
  const Tensor narrow = LinearOfDropped(x, lora_a, is_training() ? lora_dropout : 0);
  // Neither the layer's nor the residual's gradient needs what the product was.
  if (product.dim() == 2) return product.addmm_(narrow, lora_b.t(), /*beta=*/1, lora_scale);
  return product.add_(at::linear(narrow, lora_b), lora_scale);
}

Tensor Linear::OfPacked(const Tensor& x) const {
  Tensor result = packed->Multiply(x);
  if (bias.defined()) result.add_(bias);
  return result.to(x.scalar_type());
}

LayerNorm::LayerNorm(int64_t size, double epsilon, const TensorOptions& options) : epsilon(epsilon) {
  weight = register_parameter("weight", torch::empty({size}, options));
  bias = register_parameter("bias", torch::empty({size}, options));
}

Embedding::Embedding(int64_t rows, int64_t size, const TensorOptions& options) {
  weight = register_parameter("weight", torch::empty({rows, size}, options));
}

Tensor Embedding::LookUp(const Tensor& ids, int64_t padding, const std::shared_ptr<GradientSink>& sink) const {
  const bool learns = torch::GradMode::is_enabled() && weight.requires_grad();
  if (!learns || sink == nullptr || !sink->TakesRows(weight)) return at::embedding(weight, ids, padding);
  Tensor rows = at::embedding(weight.detach(), ids).requires_grad_();
  rows.register_hook([sink, table = weight, ids, padding](const Tensor& gradients) {
    if (padding < 0) return sink->AddRows(table, ids, gradients);
    const Tensor others = ids.ne(padding).nonzero().squeeze(1);
    sink->AddRows(table, ids.index_select(0, others), gradients.index_select(0, others));
  });
  return rows;
}

static void DrawInPlace(const Tensor& value, const std::string& name, const InitialWeights& how,
                        at::Generator& generator) {
  if (value.dim() >= 2) {
    value.normal_(0.0, how.range, generator);
  } else {
    value.fill_(absl::EndsWith(name, ".bias") ? 0.0 : how.norm);
  }
}

void DrawWeight(const Tensor& value, const std::string& name, const InitialWeights& how, at::Generator& generator) {
  const torch::NoGradGuard no_grad;
  if (value.is_cpu() && value.scalar_type() == torch::kFloat32) return DrawInPlace(value, name, how, generator);
  const Tensor drawn = torch::empty(value.sizes(), torch::kFloat32);
  DrawInPlace(drawn, name, how, generator);
  value.copy_(drawn);
}

torch::nn::Module& HolderOf(torch::nn::Module& root, std::string& path) {
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  torch::nn::Module* holder = &root;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    const auto children = holder->named_children();
    const std::shared_ptr<torch::nn::Module>* found = children.find(names[i]);
    holder = found != nullptr ? found->get()
                              : holder->register_module(names[i], std::make_shared<torch::nn::Module>()).get();
  }
  path = names.back();
  return *holder;
}

void NameDropped(Tensor weight, const std::string& name) {
  weight.set_data(WithoutMemory(weight.sizes(), weight.scalar_type(), weight.device(), name, kComesLater));
}

void DropMemory(const std::vector<Tensor>& weights) {
  for (const Tensor& weight : weights) NameDropped(weight, "a weight of a block");
}

void InitialiseWeights(torch::nn::Module& module, const InitialWeights& how, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  std::map<const c10::TensorImpl*, std::pair<std::string, Tensor>>
      turns;            // of weights that wait: the generator's states
  int64_t largest = 0;  // of those that wait
  for (const Tensor& weight : module.parameters()) largest = std::max(largest, HasMemory(weight) ? 0 : weight.numel());
  // Once: between smaller blocks rooms of their own would leave holes in the heap.
  const Tensor room = torch::empty({largest}, torch::kFloat32);
  for (auto& parameter : module.named_parameters()) {
    Tensor& value = parameter.value();
    if (HasMemory(value)) {
      DrawInPlace(value, parameter.key(), how, generator);
      continue;
    }
    turns[value.unsafeGetTensorImpl()] = {parameter.key(), generator.get_state()};
    NameDropped(value, parameter.key());
    // What comes after it is drawn as if it were there.
    DrawInPlace(room.narrow(0, 0, value.numel()).view(value.sizes()), parameter.key(), how, generator);
  }
  if (turns.empty()) return;
  dynamic_cast<GatedModel&>(module).SetBlockSource([how, turns](const Tensor& weight, const Tensor& values) {
    const auto& [name, state] = turns.at(weight.unsafeGetTensorImpl());
    at::Generator once_more = at::make_generator<at::CPUGeneratorImpl>();
    once_more.set_state(state);
    DrawWeight(values, name, how, once_more);
  });
}

}  // namespace distill
