// x / (1 + |x|), which follows the network's day layers.
#pragma once

#include <torch/types.h>

namespace distill {

// Of any shape. On CPUs one sweep of float32 or bfloat16, differentiable once.
torch::Tensor Softsign(const torch::Tensor& x);
// The same in tensor operations, which other types and GPUs take and tests compare with.
torch::Tensor PlainSoftsign(const torch::Tensor& x);

}  // namespace distill
