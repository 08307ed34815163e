// The options of distilbert that may hold names of the hub.
#pragma once

#include <vector>

#include "examples/distilbert/options.h"
#include "examples/recipe/hub_sources.h"

namespace distill {

inline std::vector<HubOption> HubOptionsOf(DistilBertOptions& options) {
  return {ModelOption("teacher_model", options.teacher_model, &options.teacher_revision),
          ModelOption("student_checkpoint", options.student_checkpoint, &options.student_revision),
          RowsOption(options.sources)};
}

}  // namespace distill
