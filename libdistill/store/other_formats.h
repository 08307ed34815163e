// Files of rows that libdistill does not read: what they are, and how to convert them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace distill {

// OK for a file whose rows may be read (row_reader.h). InvalidArgument: Arrow, xz, zip, one JSON array, a pointer of
// Git LFS, or a name that promises what the bytes are not; the message says what it is and how to convert it.
// `beginning`: the file's first bytes, a few hundred of them or all.
[[nodiscard]] absl::Status CheckIsNoOtherFormat(const std::string& path, absl::string_view beginning);

// The same of a folder in which no file of rows was found: one that the `datasets` library saved, or that holds files
// of those formats.
[[nodiscard]] absl::Status CheckIsNoOtherFolder(const std::string& folder);

}  // namespace distill
