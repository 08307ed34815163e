// What generation_config.json says of how tokens are chosen.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "libdistill/nn/sampling.h"

namespace distill {

// As transformers' generate() takes FOLDER/generation_config.json: with do_sample its temperature (1 where it has
// none), top_k (50), top_p (1) and min_p; without it, or without the file, greedy; repetition_penalty in either case.
// DataLoss, InvalidArgument: file and field are named.
[[nodiscard]] absl::StatusOr<SamplingOptions> ReadSamplingOptions(const std::string& folder);

}  // namespace distill
