#include "libdistill/nn/variable_length_attention.h"

#include <ATen/Context.h>
#include <ATen/ops/_flash_attention_forward.h>

#include <optional>
#include <tuple>

#include "libdistill/tensor/multiplies_bf16.h"

namespace distill {

using torch::Tensor;

bool HasVariableLengths(torch::Device device) {
  // Flash kernels came with the GPUs that multiply bfloat16.
  return device.is_cuda() && at::globalContext().userEnabledFlashSDP() && MultipliesBf16(device);
}

// The backward of the widest heads takes more shared memory than all but the largest GPUs have, unless nothing is
// dropped and they are as wide as can be.
bool HasVariableLengths(int64_t head_size, double dropout) {
  return head_size % 8 == 0 && (head_size <= 192 || (head_size > 224 && head_size <= 256 && dropout == 0));
}

bool TakesVariableLengths(const AttentionCall& call) {
  const bool is_narrow = call.dtype == torch::kBFloat16 || call.dtype == torch::kFloat16;
  return is_narrow && !call.has_cap_or_sinks && HasVariableLengths(call.head_size, call.dropout) &&
         HasVariableLengths(call.device);
}

Tensor AttendVariableLengths(const Tensor& query, const Tensor& keys, const Tensor& values, const TokenLayout& layout,
                             bool is_causal, double dropout, const AttentionTraits& traits) {
  const std::optional<double> scale = traits.scale > 0 ? std::optional(traits.scale) : std::nullopt;
  std::optional<int64_t> before, behind;
  if (traits.window > 0 && traits.window < layout.max_length) before = traits.window - 1, behind = 0;
  return std::get<0>(at::_flash_attention_forward(query, keys, values, layout.begins, layout.begins, layout.max_length,
                                                  layout.max_length, dropout, is_causal, /*return_debug_mask=*/false,
                                                  scale, before, behind));
}

}  // namespace distill
