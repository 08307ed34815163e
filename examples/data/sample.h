// A part of a data set, drawn at random.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "examples/data/options.h"

namespace distill {

// InvalidArgument where a sample cannot be written under that name: it is JSON Lines, uncompressed.
[[nodiscard]] absl::Status CheckSampleName(const std::string& file);

// Writes options.rows rows of `path` to `file`, JSON Lines of any store, in their order there; with options.label
// equally many of each of its values, as far as there are any. The same seed draws the same rows. InvalidArgument: a
// row has no such column, or one that is no string, number or truth value.
[[nodiscard]] absl::Status SampleRows(const std::string& path, const std::string& file, const DataOptions& options);

}  // namespace distill
