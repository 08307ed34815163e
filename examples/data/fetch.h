// Models and data sets of the hub as local folders.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/data/options.h"

namespace distill {

// Downloads what is needed of a model, or the rows (of the split) of a data set, and prints the folder.
[[nodiscard]] absl::Status FetchRepository(const std::string& name, const DataOptions& options);

// The data that a command reads: a path as it is, the folder of a data set of the hub.
[[nodiscard]] absl::StatusOr<std::string> LocalData(const std::string& text, const DataOptions& options);

}  // namespace distill
