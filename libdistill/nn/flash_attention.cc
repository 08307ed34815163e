#include "libdistill/nn/flash_attention.h"

#include <ATen/Context.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/tensor/catch_torch.h"

namespace distill {
namespace {

void AllowOtherKernels(bool allowed) {
  at::Context& context = at::globalContext();
  context.setSDPUseMath(allowed);
  context.setSDPUseMemEfficient(allowed);
  context.setSDPUseCuDNN(allowed);
}

void Try(c10::Device device, torch::Dtype dtype, const AttentionShape& shape) {
  constexpr int64_t kTokens = 16;
  const auto options = torch::TensorOptions().device(device).dtype(dtype);
  const auto make = [&](int64_t heads) { return torch::zeros({1, heads, kTokens, shape.head_dim}, options); };
  const torch::Tensor query = make(shape.heads).requires_grad_(true);
  at::scaled_dot_product_attention(query, make(shape.key_value_heads), make(shape.key_value_heads), std::nullopt,
                                   /*dropout_p=*/0.0, /*is_causal=*/true, /*scale=*/std::nullopt,
                                   /*enable_gqa=*/shape.heads != shape.key_value_heads)
      .sum()
      .backward();
}

}  // namespace

absl::Status CheckFlashAttention(c10::Device device, torch::Dtype dtype) {
  if (!device.is_cuda()) {
    return absl::InvalidArgumentError("use_flash_attention: true needs a GPU, and this run is on a CPU; leave it out");
  }
  if (dtype == torch::kBFloat16 || dtype == torch::kFloat16) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("use_flash_attention: true, but flash kernels take no ",
                                                 c10::toString(dtype),
                                                 ": set bf16: true or fp16: true, or leave it out"));
}

absl::Status CheckFlashAttention(const DecoderConfig& config, int64_t longest) {
  std::string what;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const int64_t window = config.layer(i).window;
    if (window > 0 && window < longest) what = absl::StrCat("windows of ", window, " tokens in rows of ", longest);
  }
  if (config.attention_sinks) what = "attention sinks";
  if (config.attention_softcap > 0) what = "capped scores (attn_logit_softcapping)";
  if (what.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("use_flash_attention: true, but ", config.model_type, " has ", what,
                                                 ", which torch's flash kernels do not know; leave it out"));
}

absl::Status UseFlashAttention(c10::Device device, torch::Dtype dtype, const std::vector<AttentionShape>& shapes) {
  DISTILL_RETURN_IF_ERROR(CheckFlashAttention(device, dtype));
  AllowOtherKernels(false);
  const absl::Status tried = CatchTorch([&] {
    for (const AttentionShape& shape : shapes) Try(device, dtype, shape);
  });
  if (tried.ok()) return tried;
  AllowOtherKernels(true);
  return absl::InvalidArgumentError(absl::StrCat(
      "use_flash_attention: true, but torch has no flash kernel for these heads on this GPU; leave it out (",
      tried.message(), ")"));
}

}  // namespace distill
