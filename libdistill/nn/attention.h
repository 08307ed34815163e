// Attention, with grouped queries where there are, through LibTorch's fused kernels, or on CPUs by tiles
// (tiled_attention.h) where those are faster, and on GPUs in one call for documents of several lengths
// (variable_length_attention.h) where there is one; inside nn/ only.
#pragma once

#include <torch/types.h>

#include "libdistill/nn/attention_traits.h"
#include "libdistill/nn/token_layout.h"

namespace distill {

// Of further tokens to all that came before: B rows, A query heads, K key-value heads (divides A), T queries, S keys, D
// head size. query [B, A, T, D], keys and values [B, K, S, D] -> [B, A, T, D]. `seen`, bool [B, 1, T, S]: which keys
// each query sees; undefined: all. The traits' window is the caller's matter.
torch::Tensor CachedAttention(const torch::Tensor& query, const torch::Tensor& keys, const torch::Tensor& values,
                              const torch::Tensor& seen, const AttentionTraits& traits);

// Within each document of a layout: what came before and the token itself (causal), or all of it (K = A then).
// query [P, A, D], keys and values [P, K, D] -> [P, A * D].
torch::Tensor DocumentAttention(const torch::Tensor& query, const torch::Tensor& keys, const torch::Tensor& values,
                                const TokenLayout& layout, bool is_causal, double dropout = 0,
                                const AttentionTraits& traits = {});

}  // namespace distill
