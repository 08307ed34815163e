// The options of distill_llm that may hold names of the hub.
#pragma once

#include <vector>

#include "examples/llm/options.h"
#include "examples/recipe/hub_sources.h"

namespace distill {

inline std::vector<HubOption> HubOptionsOf(LlmOptions& options) {
  return {
      ModelOption("teacher_model", options.teacher_model, &options.teacher_revision),
      ModelOption("student_model", options.student_model, &options.student_revision),
      RowsOption("eval_dataset_name", options.eval_dataset_name, options.eval_split, &options.sources.dataset_revision),
      RowsOption(options.sources)};
}

}  // namespace distill
