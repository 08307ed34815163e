// --plan: what the training that the options describe takes, out of the sizes that they name.
//
//   PlannedModel model = PlannedDayGru(options.model, /*bins=*/500, /*targets=*/125);
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "examples/brain2text/options.h"
#include "libdistill/plan/planned_model.h"
#include "libdistill/world/world.h"

namespace distill {

// DayGru (day_gru.h) on trials of so many time bins, which give at least one frame, with CTC over `targets` classes
// each. What the tokens of a plan are here are frames of the GRU. All parameters are counted as trained.
[[nodiscard]] absl::StatusOr<PlannedModel> PlannedDayGru(const BrainModelOptions& options, int64_t bins,
                                                         int64_t targets);

// A text for people. Reads the teacher's model_options.yaml and, where dataset_dir is a folder of this host, how long
// its trials are. Blocks. InvalidArgument: what cannot be planned; errors of BrainRecordings::Open.
[[nodiscard]] absl::StatusOr<std::string> PlanBrain(const Brain2TextOptions& given, const Brain2TextFlags& flags,
                                                    const World& world);

}  // namespace distill
