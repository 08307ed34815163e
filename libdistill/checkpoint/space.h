// Whether a disk has space for what a run will save.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace distill {

struct SavePlan {
  int64_t model_bytes = 0;       // of the trained model, at the end
  int64_t checkpoint_bytes = 0;  // of one
  int64_t kept = 0;              // checkpoints that are kept at one time; 0: none is saved
  int64_t planned = 0;           // checkpoints of the whole run; above `kept` where later ones may not fit
};

// Before the first step. Counts as free what output_dir holds already of earlier checkpoints and models: the run
// replaces them, or they are those that it keeps. ResourceExhausted: no space for the model, the checkpoints that are
// kept, and one more that is written meanwhile. Logs a warning where all planned ones would not fit, and are kept.
[[nodiscard]] absl::Status CheckSpace(const std::string& output_dir, const SavePlan& plan);

}  // namespace distill
