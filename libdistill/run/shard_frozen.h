// Shards a model that a run does not train, a teacher that does not fit, say.
#pragma once

#include "absl/status/status.h"
#include "libdistill/nn/language_model.h"
#include "libdistill/run/run.h"

namespace distill {

// ShardBlocks (shard/sharded_models.h) over the ranks of `run` and on its device; the run's trainer then takes part in
// the model's passes. Every rank must call it; blocks.
[[nodiscard]] absl::Status ShardFrozen(RunContext& run, LanguageModel& model);

}  // namespace distill
