// Files that hold rows, but not as JSON Lines.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace distill {

// OK for a file that may be JSON Lines, and for one that is missing: reading it says that. InvalidArgument: Parquet,
// Arrow, CSV, a compressed file, one JSON array, or a pointer of Git LFS; the message says what it is and how to
// convert it.
[[nodiscard]] absl::Status CheckIsJsonLines(const std::string& path);

// The same of a folder without *.jsonl: one that the `datasets` library saved, or that holds files of those kinds.
[[nodiscard]] absl::Status CheckIsNoOtherFolder(const std::string& folder);

}  // namespace distill
