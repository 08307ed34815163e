// The functions between a decoder's matrix products but for rotary.h's, each one sweep over memory (layer_sweep_run.h);
// inside nn/ only. Those called Reference are the same in tensor operations, which other types and devices take.
#pragma once

#include <torch/types.h>

#include "libdistill/nn/decoder_config.h"

namespace distill {

// Root-mean-square norm (Zhang, Sennrich 2019) as transformers computes it: input [N, H], weight [H] -> [N, H]:
// input / sqrt(mean(input^2) + epsilon) in float32, times the weight as NormKind says. Differentiable in both.
torch::Tensor RmsNorm(const torch::Tensor& input, const torch::Tensor& weight, double epsilon, NormKind kind);
torch::Tensor RmsNormReference(const torch::Tensor& input, const torch::Tensor& weight, double epsilon, NormKind kind);

// The gated unit of a feed-forward part (Shazeer 2020, "GLU variants improve transformer"): act(gate) * up, of one
// shape [N, F] and dtype -> [N, F]. Differentiable in both, whose values are all that is kept for it.
torch::Tensor GatedUnit(const torch::Tensor& gate, const torch::Tensor& up, GateKind kind);
// Of both in one tensor, [N, 2 F]: the gate, and behind it up.
torch::Tensor GatedUnit(const torch::Tensor& gate_and_up, GateKind kind);
torch::Tensor GatedUnitReference(const torch::Tensor& gate, const torch::Tensor& up, GateKind kind);

}  // namespace distill
