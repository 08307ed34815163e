// Activation checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"): a part of a model that
// keeps its input alone, and is computed again when its backward comes.
#pragma once

#include <functional>

#include <torch/types.h>

namespace distill {

// forward(input), with the gradients that calling it would give, the parameters' that it uses included. `forward` must
// compute the same bits every time. In the backward pass it runs once more, and its own backward right after. Without
// gradients being taken it is just called.
torch::Tensor Recomputed(std::function<torch::Tensor(const torch::Tensor&)> forward, const torch::Tensor& input);

}  // namespace distill
