// The functions between a decoder's matrix products but for rotary.h's, each one sweep over memory on CPUs; inside nn/
// only. Those called Reference are the same in tensor operations.
#pragma once

#include <torch/types.h>

namespace distill {

// Root-mean-square norm (Zhang, Sennrich 2019) as transformers computes it: input [N, H], weight [H] -> [N, H]:
// input / sqrt(mean(input^2) + epsilon) in float32, cast to the input's dtype, times weight. Differentiable in both.
torch::Tensor RmsNorm(const torch::Tensor& input, const torch::Tensor& weight, double epsilon);
torch::Tensor RmsNormReference(const torch::Tensor& input, const torch::Tensor& weight, double epsilon);

// The gated unit of Llama's and Qwen2's feed-forward part (Shazeer 2020, "GLU variants improve transformer"):
// silu(gate) * up, of one shape and dtype. Differentiable in both, whose values are all that is kept for it.
torch::Tensor GatedUnit(const torch::Tensor& gate, const torch::Tensor& up);
torch::Tensor GatedUnitReference(const torch::Tensor& gate, const torch::Tensor& up);

}  // namespace distill
