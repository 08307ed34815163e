// Dropout (Srivastava et al. 2014): each element is 0 with a probability p, else divided by 1 - p.
//
// On CPUs it is one sweep over memory (of float16 made float32), which keeps no mask: what is dropped is a function of
// a seed and the element's place (dropping.h), the same on every kind of CPU and for every number of threads. Elsewhere
// it is torch's. Both draw from torch's default generator of the device, so that a saved state drops the same again. On
// CPUs the probability is rounded to parts of 2^16.
#pragma once

#include <torch/types.h>

#include "libdistill/nn/dropping.h"

namespace distill {

// Of x's shape and type; x itself where p is 0. Differentiable once. Throws c10::Error unless 0 <= p <= 1.
torch::Tensor Dropout(const torch::Tensor& x, double p);

// residual + Dropout(x, p), in one sweep; both of one shape and type.
torch::Tensor AddDropped(const torch::Tensor& residual, const torch::Tensor& x, double p);

// at::linear(Dropout(x, p), weight), x [N, in]. Where dropout sweeps, x is kept for the backward pass and not a copy of
// it of which elements are dropped: that is made anew.
torch::Tensor LinearOfDropped(const torch::Tensor& x, const torch::Tensor& weight, double p);

// Draws a seed from the CPU's generator; inside nn/ only.
Dropping DrawDropping(double p);

}  // namespace distill
