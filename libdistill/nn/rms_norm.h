// Root-mean-square norm (Zhang, Sennrich 2019) as transformers computes it; inside nn/ only.
#pragma once

#include <torch/types.h>

namespace distill {

// input [N, H], weight [H] -> [N, H]: input / sqrt(mean(input^2) + epsilon) in float32, cast to the input's dtype,
// times weight. Differentiable in both.
torch::Tensor RmsNorm(const torch::Tensor& input, const torch::Tensor& weight, double epsilon);

// The same in tensor operations.
torch::Tensor RmsNormReference(const torch::Tensor& input, const torch::Tensor& weight, double epsilon);

}  // namespace distill
