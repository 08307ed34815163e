#include "libdistill/nn/layers.h"

#include <ATen/CPUGeneratorImpl.h>

#include "absl/strings/match.h"

namespace distill {

using torch::Tensor;
using torch::TensorOptions;

Linear::Linear(int64_t in, int64_t out, bool has_bias, const TensorOptions& options) {
  weight = register_parameter("weight", torch::empty({out, in}, options));
  if (has_bias) bias = register_parameter("bias", torch::empty({out}, options));
}

Tensor Linear::AddTo(const Tensor& residual, const Tensor& x) const {
  if (bias.defined()) return residual + (*this)(x);
  return at::addmm(residual, x, weight.t());
}

LayerNorm::LayerNorm(int64_t size, double epsilon, const TensorOptions& options) : epsilon(epsilon) {
  weight = register_parameter("weight", torch::empty({size}, options));
  bias = register_parameter("bias", torch::empty({size}, options));
}

Embedding::Embedding(int64_t rows, int64_t size, const TensorOptions& options) {
  weight = register_parameter("weight", torch::empty({rows, size}, options));
}

void InitialiseWeights(torch::nn::Module& module, double range, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (auto& parameter : module.named_parameters()) {
    Tensor& value = parameter.value();
    if (value.dim() >= 2) {
      value.normal_(0.0, range, generator);
    } else {
      value.fill_(absl::EndsWith(parameter.key(), ".bias") ? 0.0 : 1.0);
    }
  }
}

}  // namespace distill
