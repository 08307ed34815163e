// --plan: the memory that a run would need, before it is made.
#pragma once

#include <string>

#include "examples/llm/options.h"
#include "libdistill/distill.h"

namespace distill {

// A table for people. Reads (of models of the hub, fetches) the configs of both models, the tokenizer, and the data's
// size; neither weights nor data.
[[nodiscard]] absl::StatusOr<std::string> PlanRun(LlmOptions options, const PlanFlags& flags, const World& world);

}  // namespace distill
