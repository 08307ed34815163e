// Attention of all documents of a layout at once, however long each is, by one call of LibTorch's flash kernels for
// variable lengths (Dao 2023, "FlashAttention-2"), which GPUs have; inside nn/ only.
#pragma once

#include <cstdint>

#include <torch/types.h>

#include "libdistill/nn/attention_traits.h"
#include "libdistill/nn/token_layout.h"

namespace distill {

// Whether a device has such kernels: GPUs of compute capability 8.0 or later.
bool HasVariableLengths(torch::Device device);
// Whether there are some for heads of `head_size` elements.
bool HasVariableLengths(int64_t head_size, double dropout);

// The elements of a head as their backward pass has its gradient in float32, in whole groups of 32.
inline int64_t WideHeadSize(int64_t head_size) { return (head_size + 31) / 32 * 32; }

// Whether a layer's attention can be given to them: of bfloat16 or float16 there, of such heads, and with neither a cap
// nor sinks; a window and a scale they know.
struct AttentionCall {
  torch::Device device;
  torch::Dtype dtype;
  int64_t head_size;
  double dropout = 0;
  bool has_cap_or_sinks = false;
};
bool TakesVariableLengths(const AttentionCall& call);

// query [P, A, D], keys and values [P, K, D] (K divides A), the innermost dimension contiguous -> [P, A, D]. Padding
// sees nothing but padding. What is dropped comes from the generator of the device. Differentiable once.
torch::Tensor AttendVariableLengths(const torch::Tensor& query, const torch::Tensor& keys, const torch::Tensor& values,
                                    const TokenLayout& layout, bool is_causal, double dropout,
                                    const AttentionTraits& traits);

}  // namespace distill
