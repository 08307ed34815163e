// --plan: what the training that the options describe takes.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "examples/squad/options.h"
#include "libdistill/world/world.h"

namespace distill {

// A text for people. Reads (of models of the hub, fetches) the configs of both models, the tokenizer, and the data's
// size; neither weights nor data. Blocks. InvalidArgument: what cannot be planned; errors of FetchConfigs begin with
// the option.
[[nodiscard]] absl::StatusOr<std::string> PlanRun(SquadOptions options, const RecipeFlags& flags, const World& world);

}  // namespace distill
