// What a run keeps of its options: in resolved_config.yaml, and with each checkpoint. Sees no torch.
#pragma once

#include <utility>

#include "libdistill/core/description.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

// Name and value of every option, for a config file that repeats the run. overwrite_output_dir is always false: set
// again, it would let the repeated run replace this run's own checkpoints. A struct with a field `kept` that is not
// empty gives that: where its paths have become other ones since, as names of the hub become folders.
template <class Options>
FieldValues OptionsToKeep(Options options) {
  if constexpr (requires { options.kept; }) {
    if (!options.kept.empty()) return std::move(options.kept);
  }
  options.trainer.overwrite_output_dir = false;
  return DescriptionOf(options).Values(/*with_code_only=*/false);
}

// For Trainer::Create.
template <class Options>
TrainerOptions TrainerOptionsOf(const Options& options) {
  TrainerOptions trainer = options.trainer;
  trainer.resolved_config = OptionsToKeep(options);
  return trainer;
}

}  // namespace distill
