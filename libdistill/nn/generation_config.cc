#include "libdistill/nn/generation_config.h"

#include <nlohmann/json.hpp>

#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_reader.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// What transformers draws from where nothing says how many (GenerationMixin._get_default_generation_params).
constexpr int64_t kTopK = 50;

absl::StatusOr<SamplingOptions> Parse(const std::string& text) {
  DISTILL_ASSIGN_OR_RETURN(const nlohmann::json document, ParseConfigObject(text));
  ConfigReader reader(document);
  SamplingOptions options;
  bool does_sample = false;
  reader.Bool("do_sample", does_sample);
  reader.Number("repetition_penalty", options.repetition_penalty);
  if (does_sample) {
    options.temperature = 1;
    options.top_k = kTopK;
    reader.Number("temperature", options.temperature);
    reader.Probability("top_p", options.top_p);
    reader.Probability("min_p", options.min_p);
    if (const nlohmann::json* top_k = reader.Find("top_k"); top_k != nullptr) {
      if (!top_k->is_number_unsigned()) reader.Fail("\"top_k\" must be a whole number of at least 0");
      if (top_k->is_number_unsigned()) options.top_k = top_k->get<int64_t>();
    }
  }
  DISTILL_RETURN_IF_ERROR(reader.status());
  return options;
}

}  // namespace

absl::StatusOr<SamplingOptions> ReadSamplingOptions(const std::string& folder) {
  const std::string path = JoinPath(folder, "generation_config.json");
  if (!FileExists(path)) return SamplingOptions();
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  absl::StatusOr<SamplingOptions> options = Parse(text);
  if (!options.ok()) return Annotate(options.status(), path);
  return options;
}

}  // namespace distill
