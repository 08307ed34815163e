#include "libdistill/nn/attention.h"

#include <optional>

#include "libdistill/core/vectors.h"
#include "libdistill/nn/dropout.h"
#include "libdistill/nn/tiled_attention.h"
#include "libdistill/nn/variable_length_attention.h"

namespace distill {
namespace {

using torch::Tensor;

// [n * L, heads, D], the tokens of one rectangle, as [n, heads, L, D].
Tensor AsHeads(const Tensor& tokens, const TokenLayout::Rectangle& rectangle) {
  return tokens.view({rectangle.documents, rectangle.length, tokens.size(1), tokens.size(2)}).transpose(1, 2);
}

// Query i sees keys 0 to i; T of both.
Tensor CausalAttention(const Tensor& query, const Tensor& keys, const Tensor& values, double dropout,
                       std::optional<double> scale) {
  const int64_t heads = query.size(1), queries = query.size(2);
  const bool is_grouped = keys.size(1) != heads;
  // Of CUDA's fused kernels the flash ones alone take shared heads, which know narrow types on GPUs of compute
  // capability 8.0 or later; else torch would fall back to whole attention matrices.
  const bool takes_groups =
      query.is_cpu() || (query.scalar_type() != torch::kFloat32 && HasVariableLengths(query.device()));
  return at::scaled_dot_product_attention(query, takes_groups ? keys : RepeatHeads(keys, heads),
                                          takes_groups ? values : RepeatHeads(values, heads), /*attn_mask=*/{}, dropout,
                                          /*is_causal=*/queries > 1, scale,
                                          /*enable_gqa=*/is_grouped && takes_groups);
}

// On CPUs LibTorch drops of whole matrices, in float32, by masks of one draw after another. Its fused kernel, for what
// drops nothing, multiplies bfloat16 by MKL, which has instructions for that on Intel's alone.
bool PrefersTiles(const Tensor& query, double dropout, bool is_plain) {
  if (!TakesTiles(query)) return false;
  return dropout > 0 || !is_plain || (query.scalar_type() == torch::kBFloat16 && CpuMultipliesBf16());
}

// Of one rectangle; query [n, A, L, D], keys and values [n, K, L, D]. `real`: bool [n, 1, 1, L], undefined where all
// are.
Tensor RectangleAttention(const Tensor& query, const Tensor& keys, const Tensor& values,
                          const TokenLayout::Rectangle& rectangle, const Tensor& real, bool is_causal, double dropout,
                          const AttentionTraits& traits) {
  const bool is_plain = traits.is_plain(rectangle.length);
  if (PrefersTiles(query, dropout, is_plain)) {
    TiledAttention options = {.traits = traits, .is_causal = is_causal, .real_keys = rectangle.real_lengths};
    if (dropout > 0) options.dropping = DrawDropping(dropout);
    return AttendByTiles(query, keys, values, options);
  }
  const std::optional<double> scale = traits.scale > 0 ? std::optional(traits.scale) : std::nullopt;
  if (!is_plain) {
    // What the fused kernels for GPUs do not know, or not in this type.
    TORCH_CHECK(dropout == 0, "attention with a window, a cap or sinks drops nothing on this device");
    return AttendReference(query, keys, values, {.traits = traits, .is_causal = is_causal}, {});
  }
  if (is_causal) return CausalAttention(query, keys, values, dropout, scale);
  return at::scaled_dot_product_attention(query, keys, values, real.defined() ? std::optional(real) : std::nullopt,
                                          dropout, /*is_causal=*/false, scale);
}

// Whether what would be several calls by rectangles, or one with a mask or by whole matrices, is one of flash kernels.
bool PrefersVariableLengths(const Tensor& query, const TokenLayout& layout, bool is_causal, double dropout,
                            const AttentionTraits& traits) {
  const bool is_one_call = layout.rectangles.size() == 1 && traits.is_plain(layout.max_length) &&
                           (is_causal || layout.rectangles[0].real_lengths.empty());
  return !is_one_call && query.numel() > 0 &&
         TakesVariableLengths({.device = query.device(),
                               .dtype = query.scalar_type(),
                               .head_size = query.size(2),
                               .dropout = dropout,
                               .has_cap_or_sinks = traits.softcap > 0 || traits.sinks.defined()});
}

}  // namespace

// The query heads that share keys are further queries of one head, so that nobody repeats the keys.
Tensor CachedAttention(const Tensor& query, const Tensor& keys, const Tensor& values, const Tensor& seen,
                       const AttentionTraits& traits) {
  const int64_t rows = query.size(0), heads = keys.size(1), shared = query.size(1) / heads;
  const Tensor grouped = query.reshape({rows, heads, shared * query.size(2), query.size(3)});
  std::optional<Tensor> mask;
  if (seen.defined()) mask = shared == 1 ? seen : seen.repeat({1, 1, shared, 1});
  if (traits.softcap == 0 && !traits.sinks.defined()) {
    const std::optional<double> scale = traits.scale > 0 ? std::optional(traits.scale) : std::nullopt;
    return at::scaled_dot_product_attention(grouped, keys, values, mask, 0, false, scale).reshape(query.sizes());
  }
  const Tensor products = at::matmul(grouped, keys.transpose(2, 3)).to(torch::kFloat32);
  Tensor sinks;  // of the heads that share keys, one after the other, as their queries lie
  if (traits.sinks.defined()) sinks = traits.sinks.view({1, heads, shared, 1}).repeat_interleave(query.size(2), 2);
  const Tensor unseen = mask.has_value() ? mask->logical_not() : Tensor();
  const Tensor shares = ProbabilitiesOf(products, query.size(3), traits, unseen, sinks).to(values.scalar_type());
  return at::matmul(shares, values).reshape(query.sizes());
}

Tensor DocumentAttention(const Tensor& query, const Tensor& keys, const Tensor& values, const TokenLayout& layout,
                         bool is_causal, double dropout, const AttentionTraits& traits) {
  const int64_t width = query.size(1) * query.size(2);
  // LibTorch's kernels, those for variable lengths too, would divide by 0. Every input has a gradient, of zeros.
  if (dropout == 1 && !TakesTiles(query)) return ((query + keys.sum() + values.sum()) * 0).reshape({-1, width});
  if (PrefersVariableLengths(query, layout, is_causal, dropout, traits)) {
    return AttendVariableLengths(query, keys, values, layout, is_causal, dropout, traits).reshape({-1, width});
  }
  std::vector<int64_t> sizes;
  for (const TokenLayout::Rectangle& rectangle : layout.rectangles) {
    sizes.push_back(rectangle.documents * rectangle.length);
  }
  // At once: the gradients of single narrow()s would each be a tensor of all tokens, zero but for their own.
  const auto split = [&](const Tensor& flat) {
    return sizes.size() == 1 ? std::vector<Tensor>{flat} : at::split_with_sizes(flat, sizes);
  };
  const std::vector<Tensor> query_parts = split(query), key_parts = split(keys), value_parts = split(values);
  std::vector<Tensor> parts;
  int64_t first = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const TokenLayout::Rectangle& rectangle = layout.rectangles[i];
    const int64_t tokens = sizes[i];
    const Tensor q = AsHeads(query_parts[i], rectangle), k = AsHeads(key_parts[i], rectangle),
                 v = AsHeads(value_parts[i], rectangle);
    // A causal query of a document comes before its padding, and needs no mask against it.
    Tensor real;
    if (!is_causal && !rectangle.real_lengths.empty()) {
      real = layout.real.narrow(0, first, tokens).view({rectangle.documents, 1, 1, rectangle.length});
    }
    const Tensor attended = RectangleAttention(q, k, v, rectangle, real, is_causal, dropout, traits);
    parts.push_back(attended.transpose(1, 2).reshape({tokens, width}));
    first += tokens;
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

}  // namespace distill
