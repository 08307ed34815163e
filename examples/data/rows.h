// What a data set's files hold, for people.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "libdistill/data/row_options.h"

namespace distill {

// Prints, a line a file, how many rows it has, and the columns of its first row; then all of them. Bad rows are those
// that cannot be parsed: refused or counted, as `options` say.
[[nodiscard]] absl::Status CountRows(const std::string& path, const std::string& split, const RowOptions& options);

// Prints the first `rows` rows as JSON, a line each, with their places.
[[nodiscard]] absl::Status PrintRows(const std::string& path, const std::string& split, int64_t rows,
                                     const RowOptions& options);

// Reads all rows, and says how many there are.
[[nodiscard]] absl::Status VerifyRows(const std::string& path, const std::string& split, const RowOptions& options);

}  // namespace distill
