// Llama 2 and 3, and what calls itself "llama": SmolLM, SmolLM2, TinyLlama, Yi, ...
#include "libdistill/nn/decoder_family.h"

namespace distill {

DecoderFamily LlamaFamily() { return {.model_type = "llama", .fields = "mlp_bias"}; }

}  // namespace distill
