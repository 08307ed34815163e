// Phi-3, Phi-3.5 and Phi-4 of model_type "phi3", Phi-4-mini too: fused projections; some rotate a part of each head,
// and stretch positions by LongRoPE.
#include <nlohmann/json.hpp>

#include "libdistill/nn/decoder_family.h"

namespace distill {
namespace {

absl::Status Read(const nlohmann::json& document, DecoderConfig& config) {
  return ReadWindowOfAll(document, /*otherwise=*/0, config);
}

}  // namespace

DecoderFamily Phi3Family() {
  return {.model_type = "phi3",
          .defaults = {.rms_norm_eps = 1e-5, .pad_token_id = 32000, .fuses_projections = true},
          .rope = {.longest = 4096, .original_length = 4096, .may_rotate_part = true, .yarn_is_longrope = true},
          .fields = "sliding_window partial_rotary_factor",
          .read = Read,
          .bias_field = ""};
}

}  // namespace distill
