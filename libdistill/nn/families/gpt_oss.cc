// gpt-oss: a mixture of experts in every layer, with biases and a clamped gate, windows in every other layer, and a
// score of each head whose share no token gets ("attention sinks"; Xiao et al. 2023).
#include <nlohmann/json.hpp>

#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_reader.h"
#include "libdistill/nn/decoder_family.h"

namespace distill {
namespace {

absl::Status Read(const nlohmann::json& document, DecoderConfig& config) {
  ConfigReader reader(document);
  ExpertsConfig& experts = config.experts;
  reader.Size("num_local_experts", experts.count);
  reader.Size("num_experts", experts.count);
  reader.Size("num_experts_per_tok", experts.per_token);
  reader.Number("swiglu_alpha", experts.gate_slope);
  reader.Number("swiglu_limit", experts.gate_limit);
  experts.size = config.intermediate_size;
  DISTILL_RETURN_IF_ERROR(reader.status());
  DISTILL_RETURN_IF_ERROR(CheckExperts(document, experts));
  if (reader.Find("rope_parameters") == nullptr && reader.Find("rope_scaling") == nullptr) {
    return absl::InvalidArgumentError(
        "no \"rope_parameters\" and no \"rope_scaling\": positions of gpt_oss are stretched");
  }
  DISTILL_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(document, /*otherwise=*/128));
  DISTILL_RETURN_IF_ERROR(ReadLayerTypes(
      document, window, [](int64_t layer) { return layer % 2 == 0; }, config));
  for (DecoderLayer& layer : config.layers) layer.has_experts = true;
  return absl::OkStatus();
}

}  // namespace

DecoderFamily GptOssFamily() {
  return {.model_type = "gpt_oss",
          .defaults = {.num_key_value_heads = 8,
                       .head_dim = 64,
                       .rms_norm_eps = 1e-5,
                       .query_key_value_bias = true,
                       .output_bias = true,
                       .norm = NormKind::kWide,
                       .attention_sinks = true,
                       .experts = {.count = 128, .per_token = 4, .is_stacked = true}},
          .rope = {.theta = 150000, .longest = 131072},
          .fields =
              "num_local_experts num_experts num_experts_per_tok experts_per_token swiglu_alpha swiglu_limit "
              "sliding_window layer_types initial_context_length",
          .read = Read};
}

}  // namespace distill
