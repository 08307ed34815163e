// Models and data sets that are names of the hub, in a job that may be resumed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/run/hub_paths.h"
#include "libdistill/train/trainer_options.h"

namespace distill {

// Every rank must call it; blocks. Names of the hub get the commit that they are now or, where the run resumes, that
// with which it began: what the resolved_config.yaml beside the checkpoint, or in output_dir, has under the option's
// name, of which several may stand there with commas. Then FetchOnEachHost (run/hub_paths.h) makes folders of them.
[[nodiscard]] absl::Status PinSources(RunContext& run, const TrainerOptions& trainer, std::vector<NamedPath>& paths);

// For one process alone, which needs no weights, as a plan does: `model`, where it is a name of the hub, becomes a
// folder with its config.json. Blocks. Errors begin with the option and, where the hub is out of reach, say what will
// do in its place.
[[nodiscard]] absl::Status FetchConfig(const std::string& option, const std::string& revision, std::string& model);

}  // namespace distill
