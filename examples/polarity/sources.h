// The options of polarity that may hold names of the hub.
#pragma once

#include <vector>

#include "examples/polarity/options.h"
#include "examples/recipe/hub_sources.h"

namespace distill {

inline std::vector<HubOption> HubOptionsOf(PolarityOptions& options) {
  return {ModelOption("student_model", options.student_model, &options.student_revision),
          ModelOption("teacher_model", options.teacher_model, &options.teacher_revision),
          RowsOption("dataset_name", options.dataset_name, options.dataset_split, &options.dataset_revision),
          RowsOption("eval_dataset_name", options.eval_dataset_name, options.eval_split, &options.dataset_revision)};
}

}  // namespace distill
