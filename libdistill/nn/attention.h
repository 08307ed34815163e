// Attention, with grouped queries where there are, through LibTorch's fused kernels; inside nn/ only.
#pragma once

#include <torch/types.h>

#include "libdistill/nn/token_layout.h"

namespace distill {

// B rows, A query heads, K key-value heads (divides A), T queries, S >= T keys, D head size.
// query [B, A, T, D], keys and values [B, K, S, D] -> [B, A, T, D]; query i sees keys 0 .. S - T + i.
torch::Tensor CausalAttention(const torch::Tensor& query, const torch::Tensor& keys, const torch::Tensor& values);

// Within each document of a layout: what came before and the token itself (causal), or all of it (K = A then).
// query [P, A, D], keys and values [P, K, D] -> [P, A * D].
torch::Tensor DocumentAttention(const torch::Tensor& query, const torch::Tensor& keys, const torch::Tensor& values,
                                const TokenLayout& layout, bool is_causal);

}  // namespace distill
