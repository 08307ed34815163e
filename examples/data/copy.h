// Files and folders from one store to another.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace distill {

// `from`: a file, or a folder with all that is in it, of any store; `to`: where it goes, under that name, or into it
// where it ends with a slash. Each file appears as a whole, and is then read back and compared where `verify`. Prints a
// line a file.
[[nodiscard]] absl::Status CopyFiles(const std::string& from, const std::string& to, bool verify);

}  // namespace distill
