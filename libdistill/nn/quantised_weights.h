// What models are published as beside bfloat16 and its like (docs/models.md, "Quantised models"): weights of eight or
// fewer bits. FP8, MXFP4 and GGUF are dequantised as a teacher is loaded; how activations were to be rounded is passed
// over. Other kinds are refused with what to do instead.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "libdistill/nn/load_options.h"
#include "libdistill/store/weights_folder.h"

namespace distill {

// InvalidArgument: config.json says that the weights are quantised in a way that is not read, and how to convert them.
[[nodiscard]] absl::Status CheckQuantisation(const nlohmann::json& config);

// The folder's weights, as numbers. InvalidArgument: they are quantised, and options.dequantise does not allow it, or
// the kind is not read. Other errors are those of WeightsFolder::Open.
[[nodiscard]] absl::StatusOr<WeightsFolder> OpenWeights(const std::string& folder, const LoadOptions& options);

// InvalidArgument: the folder's weights are quantised, by its config.json or in GGUF, so that they cannot be trained.
[[nodiscard]] absl::Status CheckTrainable(const std::string& folder);

}  // namespace distill
