#include "libdistill/nn/generation_config.h"

#include <nlohmann/json.hpp>

#include "libdistill/core/status_macros.h"
#include "libdistill/nn/config_reader.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

absl::StatusOr<GenerationConfig> Parse(const std::string& text) {
  DISTILL_ASSIGN_OR_RETURN(const nlohmann::json document, ParseConfigObject(text));
  ConfigReader reader(document);
  GenerationConfig config;
  SamplingOptions& sampling = config.sampling;
  reader.Bool("do_sample", config.does_sample);
  reader.Number("repetition_penalty", sampling.repetition_penalty);
  // Files without do_sample may have a temperature of 0, which says the same once more.
  if (const nlohmann::json* value = reader.Find("temperature"); value == nullptr || *value != 0 || config.does_sample) {
    reader.Number("temperature", sampling.temperature);
  }
  reader.Probability("top_p", sampling.top_p);
  reader.Probability("min_p", sampling.min_p);
  reader.Count("top_k", sampling.top_k);
  DISTILL_RETURN_IF_ERROR(reader.status());
  return config;
}

}  // namespace

absl::StatusOr<GenerationConfig> ReadGenerationConfig(const std::string& folder) {
  const std::string path = JoinPath(folder, "generation_config.json");
  if (!FileExists(path)) return GenerationConfig();
  DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  absl::StatusOr<GenerationConfig> config = Parse(text);
  if (!config.ok()) return Annotate(config.status(), path);
  return config;
}

}  // namespace distill
