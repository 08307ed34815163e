// --plan: what the run that the options describe takes, which batches GPUs of several sizes take, and what both models
// need when neither is trained.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "examples/distilbert/options.h"
#include "libdistill/world/world.h"

namespace distill {

// A text for people. Reads (of models of the hub, fetches) the configs of both models, a tokenizer, and the data's
// size; neither weights nor data but those of the demo. Blocks. InvalidArgument: what cannot be planned; errors of
// FetchConfigs begin with the option.
[[nodiscard]] absl::StatusOr<std::string> PlanRun(DistilBertOptions options, const RecipeFlags& flags,
                                                  const World& world);

}  // namespace distill
