// Attention on CPUs by LibTorch's matrix products of tiles whose scores stay in the cache, and the sweeps of
// attention_sweep.h between them; inside nn/ only.
#pragma once

#include <optional>
#include <vector>

#include <torch/types.h>

#include "libdistill/nn/attention_traits.h"
#include "libdistill/nn/dropping.h"

namespace distill {

struct TiledAttention {
  AttentionTraits traits = {};
  bool is_causal = false;  // query i sees keys 0 to i; a window needs that
  std::vector<int64_t> real_keys =
      {};  // [B], at least 1: further ones are padding, which none sees; empty: all are real
  std::optional<Dropping> dropping = {};  // of the probabilities, [B, A, T, T]
};

// Whether it takes these: float32, bfloat16 or float16, on the CPU.
bool TakesTiles(const torch::Tensor& query);

// softmax(query keys^T / sqrt(D)) values, or what the traits make of it, of B documents, A heads, K heads of keys and
// values (divides A), T tokens, D head size: query [B, A, T, D], keys and values [B, K, T, D] -> [B, A, T, D]. float16
// is made float32 for it. Keeps copies of them and a float a query until the backward pass, which computes the scores
// again (Dao et al. 2022, "FlashAttention"). Scores are rounded to the type of the query, sums are float32.
// Differentiable once; sinks get no gradient.
torch::Tensor AttendByTiles(const torch::Tensor& query, const torch::Tensor& keys, const torch::Tensor& values,
                            const TiledAttention& options);

// The same by whole matrices, on any device, and differentiable by autograd, sinks too. What is dropped is told by
// `factors`, [B, A, T, T], by which probabilities are multiplied; undefined: none.
torch::Tensor AttendReference(const torch::Tensor& query, const torch::Tensor& keys, const torch::Tensor& values,
                              const TiledAttention& options, const torch::Tensor& factors = {});

// What softmax makes of products of queries and keys, [B, A, T, S], with the traits' scale and cap. `unseen`, bool and
// broadcast to them: keys that a query does not see; undefined: none. `sinks`, broadcast to [B, A, T, 1]; undefined:
// none.
torch::Tensor ProbabilitiesOf(const torch::Tensor& products, int64_t head_size, const AttentionTraits& traits,
                              const torch::Tensor& unseen, const torch::Tensor& sinks);

// Each key-value head repeated for the query heads that share it: [B, K, S, D] -> [B, A, S, D]; x itself where K = A.
torch::Tensor RepeatHeads(const torch::Tensor& x, int64_t heads);

}  // namespace distill
