// Activation checkpointing (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"): a part of a model that
// keeps its input alone, and is computed again when its backward comes.
#pragma once

#include <functional>

#include <torch/types.h>

namespace distill {

// forward(input), with the gradients that calling it would give, the parameters' that it uses included. In the backward
// pass it runs once more, and its own backward right after. It must compute the same bits both times: what it draws
// from the default generator of the input's device, as dropout does, is drawn once more from the same state. Without
// gradients being taken it is just called.
torch::Tensor Recomputed(std::function<torch::Tensor(const torch::Tensor&)> forward, const torch::Tensor& input);

}  // namespace distill
