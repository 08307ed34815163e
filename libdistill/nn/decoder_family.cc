#include "libdistill/nn/decoder_family.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_reader.h"

namespace distill {
namespace {

constexpr int64_t kMaxExperts = 4096;  // a config.json that asks for more is damaged

}  // namespace

using nlohmann::json;

absl::Span<const DecoderFamily> DecoderFamilies() {
  static const auto* const families = new std::vector<DecoderFamily>{
      Qwen2Family(), Qwen3Family(),  LlamaFamily(),  MistralFamily(),  SmolLm3Family(),  Olmo2Family(),
      Phi3Family(),  Gemma2Family(), Gemma3Family(), Qwen2MoeFamily(), Qwen3MoeFamily(), GptOssFamily()};
  return *families;
}

const DecoderFamily* FindDecoderFamily(absl::string_view model_type) {
  const absl::Span<const DecoderFamily> families = DecoderFamilies();
  const auto found = absl::c_find_if(families, [&](const DecoderFamily& f) { return f.model_type == model_type; });
  return found == families.end() ? nullptr : &*found;
}

absl::Status ReadLayerTypes(const json& document, int64_t window, absl::FunctionRef<bool(int64_t layer)> is_sliding,
                            DecoderConfig& config) {
  config.layers.assign(config.num_hidden_layers, DecoderLayer());
  const auto types = document.find("layer_types");
  if (types == document.end() || types->is_null()) {
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) config.layers[i].window = is_sliding(i) ? window : 0;
    return absl::OkStatus();
  }
  if (!types->is_array() || static_cast<int64_t>(types->size()) != config.num_hidden_layers) {
    return Refuse("layer_types", *types, absl::StrCat("a list of ", config.num_hidden_layers, " layers is"));
  }
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const json& type = (*types)[i];
    const bool slides = type == "sliding_attention";
    if (slides && window == 0) return Refuse("layer_types", type, "without a window only \"full_attention\" is");
    if (!slides && type != "full_attention") {
      return Refuse("layer_types", type, "\"full_attention\" and \"sliding_attention\" are");
    }
    config.layers[i].window = slides ? window : 0;
  }
  return absl::OkStatus();
}

absl::Status CheckExperts(const json& document, const ExpertsConfig& experts) {
  const char* const field = ConfigReader(document).Find("num_experts") != nullptr ? "num_experts" : "num_local_experts";
  if (experts.count > kMaxExperts) return Refuse(field, experts.count, "it is damaged");
  if (experts.per_token <= experts.count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"num_experts_per_tok\": ", experts.per_token, " of ", experts.count, " experts"));
}

absl::StatusOr<int64_t> ReadWindow(const json& document, int64_t otherwise) {
  ConfigReader reader(document);
  int64_t window = document.contains("sliding_window") ? 0 : otherwise;
  if (reader.Find("sliding_window") != nullptr) reader.Size("sliding_window", window);
  DISTILL_RETURN_IF_ERROR(reader.status());
  return window;
}

absl::Status ReadWindowOfAll(const json& document, int64_t otherwise, DecoderConfig& config) {
  DISTILL_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(document, otherwise));
  config.layers.assign(config.num_hidden_layers, DecoderLayer{.window = window});
  return absl::OkStatus();
}

}  // namespace distill
