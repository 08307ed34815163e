// use_flash_attention: true, honoured or refused.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "absl/status/status.h"
#include "libdistill/nn/decoder_config.h"

namespace distill {

// InvalidArgument: the device is no GPU, or the type none that flash kernels take (bfloat16, float16).
[[nodiscard]] absl::Status CheckFlashAttention(c10::Device device, torch::Dtype dtype);

// InvalidArgument: what the model's layers do to scores (caps, sinks, or windows shorter than `longest` tokens) is
// nothing that torch's flash kernels know.
[[nodiscard]] absl::Status CheckFlashAttention(const DecoderConfig& config, int64_t longest);

struct AttentionShape {
  int64_t heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_dim = 0;
};

// From here on torch's scaled_dot_product_attention takes its flash kernels (Dao 2023, "FlashAttention-2") or throws,
// in the whole process; they are tried once, forward and backward. InvalidArgument: as above, or a GPU or a shape for
// which there are none; then nothing has changed.
[[nodiscard]] absl::Status UseFlashAttention(c10::Device device, torch::Dtype dtype,
                                             const std::vector<AttentionShape>& shapes);

}  // namespace distill
