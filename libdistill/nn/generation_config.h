// What generation_config.json says of how tokens are chosen.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "libdistill/nn/sampling.h"

namespace distill {

// As transformers' generate() takes FOLDER/generation_config.json.
struct GenerationConfig {
  bool does_sample = false;  // false: greedy, but for the penalty
  // What is drawn by where tokens are drawn: temperature (1 where the file has none), top_k (50), top_p (1), min_p.
  SamplingOptions sampling = {.temperature = 1, .top_k = 50};
};

// That of a folder, or the defaults where it has no such file. DataLoss, InvalidArgument: file and field are named.
[[nodiscard]] absl::StatusOr<GenerationConfig> ReadGenerationConfig(const std::string& folder);

}  // namespace distill
