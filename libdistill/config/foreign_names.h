// What transformers, TRL and DistillKit call settings that have other names here: for the hint in an error, no aliases.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"

namespace distill {

struct ForeignNames {
  const char* own;  // as in the table of settings, or "config_file"
  std::vector<const char*> foreign;
};
const std::vector<ForeignNames>& AllForeignNames();

// Null where we know of none. `name` is without dashes.
const char* OwnNameOf(absl::string_view name);

}  // namespace distill
