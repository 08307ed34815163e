// The gated unit of Llama's and Qwen2's feed-forward part (Shazeer 2020, "GLU variants improve transformer"); inside
// nn/ only.
#pragma once

#include <torch/types.h>

namespace distill {

// silu(gate) * up, of one shape and dtype. Differentiable in both, whose values are all that is kept for it.
torch::Tensor GatedUnit(const torch::Tensor& gate, const torch::Tensor& up);

// The same in tensor operations.
torch::Tensor GatedUnitReference(const torch::Tensor& gate, const torch::Tensor& up);

}  // namespace distill
