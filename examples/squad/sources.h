// The options of squad that may hold names of the hub.
#pragma once

#include <vector>

#include "examples/recipe/hub_sources.h"
#include "examples/squad/options.h"

namespace distill {

// Of dataset_name the splits that are read: files of SQuAD's own take their place.
inline std::vector<HubOption> HubOptionsOf(SquadOptions& options) {
  std::vector<HubOption> sources = {
      ModelOption("model_name_or_path", options.model_name_or_path, &options.model_revision),
      ModelOption("teacher_model", options.teacher_model, &options.teacher_revision)};
  const auto add = [&](const char* split) {
    sources.push_back(RowsOption("dataset_name", options.dataset_name, split, &options.dataset_revision));
  };
  if (options.do_train && options.train_file.empty()) add("train");
  if (options.do_eval && options.validation_file.empty()) add("validation");
  return sources;
}

}  // namespace distill
