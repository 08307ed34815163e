// The table of costs as a file, which distillrun --tune writes; docs/formats.md has the format. Internal to comm/.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "libdistill/comm/create.h"
#include "libdistill/comm/tuning.h"

namespace distill {

// InvalidArgument: file, line and what is wrong: no YAML, an unknown or missing key, a value that is no number or out
// of range. NotFound: no such file.
[[nodiscard]] absl::StatusOr<CostTable> ReadTuningFile(const std::string& path);

std::string TuningFileText(CostTable table);

// What options and environment ask for. `with_table`: reads the file, if one is named; without, no table is given.
// InvalidArgument: an unknown algorithm.
[[nodiscard]] absl::StatusOr<CommTuning> ReadTuning(const CommunicatorOptions& options, bool with_table);

}  // namespace distill
