// The layers that every model family has, with the parameter names that torch gives them; inside nn/ only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>

#include "libdistill/nn/gradient_sink.h"
#include "libdistill/nn/packed_matrix.h"

namespace distill {

// Weights that hold anything yet.
struct Linear : torch::nn::Module {
  Linear(int64_t in, int64_t out, bool has_bias, const torch::TensorOptions& options);
  torch::Tensor operator()(const torch::Tensor& x) const {
    return WithAdapter(IsPackedFor(x) ? OfPacked(x) : at::linear(x, weight, bias), x);
  }
  // residual + x W^T + b, in one pass over the result where there is no bias.
  torch::Tensor AddTo(const torch::Tensor& residual, const torch::Tensor& x) const;

  // From then on `scale` times (dropout(x) a^T) b^T is added (nn/adapters.h); a and b are parameters of the layer,
  // "lora_A.weight" and "lora_B.weight". Once.
  void AddAdapter(const torch::Tensor& a, const torch::Tensor& b, double scale, double dropout);
  bool has_adapter() const { return lora_a.defined(); }

  torch::Tensor weight;          // [out, in]
  torch::Tensor bias;            // [out] or undefined
  torch::Tensor lora_a, lora_b;  // [r, in], [out, r], or undefined
  double lora_scale = 0, lora_dropout = 0;
  // A copy of the weight for products with few rows, while nobody changes it and none takes gradients; mostly null.
  std::shared_ptr<const PackedMatrix> packed;

 private:
  bool IsPackedFor(const torch::Tensor& x) const { return packed != nullptr && x.size(0) <= PackedMatrix::kMostRows; }
  torch::Tensor OfPacked(const torch::Tensor& x) const;
  // Writes to `product`, which is nobody else's.
  torch::Tensor WithAdapter(torch::Tensor product, const torch::Tensor& x) const;
};

struct LayerNorm : torch::nn::Module {
  LayerNorm(int64_t size, double epsilon, const torch::TensorOptions& options);
  torch::Tensor operator()(const torch::Tensor& x) const {
    return at::layer_norm(x, {x.size(-1)}, weight, bias, epsilon);
  }

  const double epsilon;
  torch::Tensor weight;  // [H]
  torch::Tensor bias;    // [H]
};

struct Embedding : torch::nn::Module {
  Embedding(int64_t rows, int64_t size, const torch::TensorOptions& options);
  // [N, size], the rows at `ids`, int64 [N]. Those of `padding`, -1: none, get no gradient; the others' go to `sink`
  // where it takes them. `sink` may be null.
  torch::Tensor LookUp(const torch::Tensor& ids, int64_t padding, const std::shared_ptr<GradientSink>& sink) const;
  torch::Tensor weight;  // [rows, size]
};

// The module below `root` that `path`, of names with dots between them, leads to, but for its last name, which is given
// back in `path`. What is not there yet is made: modules that only hold others.
torch::nn::Module& HolderOf(torch::nn::Module& root, std::string& path);

// Registers `child` under such a path below `root`.
template <typename Child>
std::shared_ptr<Child> RegisterAt(torch::nn::Module& root, std::string path, std::shared_ptr<Child> child) {
  torch::nn::Module& holder = HolderOf(root, path);
  return holder.register_module(path, std::move(child));
}

// Takes the memory of a block's weights, which waits for its values (LoadOptions::blocks_later).
void DropMemory(const std::vector<torch::Tensor>& weights);
// The name that the error has of whoever reads one of those.
void NameDropped(torch::Tensor weight, const std::string& name);

// How weights are drawn: matrices normal with standard deviation `range`, biases 0, weights of norms `norm`.
struct InitialWeights {
  double range = 0.02;
  double norm = 1;
};

// A weight of the device and type that it has, as below.
void DrawWeight(const torch::Tensor& value, const std::string& name, const InitialWeights& how,
                at::Generator& generator);

// As transformers does, in the order of named_parameters, so that equal seeds give equal weights. Weights without
// memory get the same values from the block source that the module then has.
void InitialiseWeights(torch::nn::Module& module, const InitialWeights& how, uint64_t seed);

}  // namespace distill
