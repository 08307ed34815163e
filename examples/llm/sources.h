// Names of the hub in options, as folders.
#pragma once

#include "examples/llm/options.h"
#include "libdistill/run/run.h"

namespace distill {

// Every rank must call it: models and data sets that are names of the hub get the commit that they are now, or, where
// the run resumes, that with which it began, in the options, and in what OptionsToKeep gives from then on. Blocks.
[[nodiscard]] absl::Status PinSources(RunContext& run, LlmOptions& options);

// Every rank must call it, after PinSources: they become local folders, which each host downloads once. Blocks.
[[nodiscard]] absl::Status FetchSources(RunContext& run, LlmOptions& options);

// For one process alone, which needs no weights: the models of a plan as folders with their config.json.
[[nodiscard]] absl::Status FetchConfigs(LlmOptions& options);

}  // namespace distill
