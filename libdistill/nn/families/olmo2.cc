// OLMo 2: norms on what each branch adds, and over all heads of the query and of the keys at once.
#include "libdistill/nn/decoder_family.h"

namespace distill {

DecoderFamily Olmo2Family() {
  return {.model_type = "olmo2",
          .defaults = {.rms_norm_eps = 1e-5,
                       .pad_token_id = 1,
                       .norm = NormKind::kWide,
                       .block_norms = {.before_attention = "",
                                       .after_attention = "post_attention_layernorm",
                                       .before_mlp = "",
                                       .after_mlp = "post_feedforward_layernorm"},
                       .query_key_norm = QueryKeyNorm::kWhole}};
}

}  // namespace distill
