// SmolLM3: each fourth layer has no positions, but for what the mask tells of them (NoPE; Kazemnejad et al. 2023).
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_reader.h"
#include "libdistill/nn/decoder_family.h"

namespace distill {
namespace {

absl::Status Read(const nlohmann::json& document, DecoderConfig& config) {
  ConfigReader reader(document);
  bool slides = false;
  int64_t interval = 4;
  std::vector<int64_t> rotated;  // 1: query and keys are rotated by positions; 0: they are not
  reader.Bool("use_sliding_window", slides);
  reader.Size("no_rope_layer_interval", interval);
  reader.Counts("no_rope_layers", rotated);
  DISTILL_RETURN_IF_ERROR(reader.status());
  const int64_t layers = config.num_hidden_layers;
  if (rotated.empty()) {
    for (int64_t i = 0; i < layers; ++i) rotated.push_back((i + 1) % interval != 0 ? 1 : 0);
  }
  if (static_cast<int64_t>(rotated.size()) < layers) {
    return Refuse("no_rope_layers", rotated, absl::StrCat("a list for ", layers, " layers is"));
  }
  DISTILL_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(document, /*otherwise=*/0));
  DISTILL_RETURN_IF_ERROR(ReadLayerTypes(
      document, slides ? window : 0, [&](int64_t layer) { return rotated[layer] == 0; }, config));
  for (int64_t i = 0; i < layers; ++i) config.layers[i].rope = rotated[i] == 0 ? -1 : 0;
  return absl::OkStatus();
}

}  // namespace

DecoderFamily SmolLm3Family() {
  return {.model_type = "smollm3",
          .defaults = {.num_key_value_heads = 4, .tie_word_embeddings = true, .pad_token_id = 128004},
          .rope = {.theta = 2e6, .longest = 32768},
          .fields = "no_rope_layers no_rope_layer_interval use_sliding_window sliding_window layer_types mlp_bias",
          .read = Read};
}

}  // namespace distill
