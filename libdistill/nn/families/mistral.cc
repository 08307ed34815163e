// Mistral 7B and its successors of model_type "mistral": every layer looks at the last sliding_window tokens, where
// config.json has such a window.
#include <nlohmann/json.hpp>

#include "libdistill/nn/config_reader.h"
#include "libdistill/nn/decoder_family.h"

namespace distill {
namespace {

absl::Status Read(const nlohmann::json& document, DecoderConfig& config) {
  const auto layers = document.find("layer_types");
  if (layers != document.end() && !layers->is_null()) {
    return Refuse("layer_types", *layers, "all layers of \"mistral\" are alike");
  }
  return ReadWindowOfAll(document, /*otherwise=*/4096, config);
}

}  // namespace

DecoderFamily MistralFamily() {
  return {.model_type = "mistral",
          .defaults = {.num_key_value_heads = 8},
          .rope = {.longest = 4096 * 32},
          .fields = "sliding_window layer_types",
          .read = Read,
          .bias_field = ""};
}

}  // namespace distill
