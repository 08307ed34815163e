// Whether tensors can go to the sweeps of layer_sweep.h; inside nn/ only.
#pragma once

#include <optional>

#include <torch/types.h>

#include "libdistill/core/dtype.h"

namespace distill {

// The type of all of them where they are on the CPU, alike and of a type that has sweeps.
template <typename... More>
std::optional<DType> SweepType(const torch::Tensor& first, const More&... more) {
  const auto type = first.scalar_type();
  if (!first.is_cpu() || !(more.is_cpu() && ...) || !((more.scalar_type() == type) && ...)) return std::nullopt;
  if (type == torch::kFloat32) return DType::kFloat32;
  if (type == torch::kBFloat16) return DType::kBFloat16;
  return std::nullopt;
}

// In the backward pass of what sweeps: its gradients are numbers to autograd, not functions.
inline void RequireFirstDerivative() {
  TORCH_CHECK(!torch::GradMode::is_enabled(), "second derivatives (create_graph) of the models in nn/ are not known");
}

// Elements that a thread should have at least.
constexpr int64_t kSweepGrain = 1 << 15;

}  // namespace distill
