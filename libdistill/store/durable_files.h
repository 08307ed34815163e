// Files that survive a crash.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

// Names of a folder's entries, sorted.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ListEntries(const std::string& folder);

// Creates and writes the file; not synced.
[[nodiscard]] absl::Status WriteWholeFile(const std::string& path, const std::string& bytes);

// Blocks until a file's contents, or a folder's entries, are on disk.
[[nodiscard]] absl::Status Sync(const std::string& path);

// Removes the folder and all that is in it; one that is not there is fine.
[[nodiscard]] absl::Status RemoveFolder(const std::string& folder);

// With its parents; one that is there already is fine.
[[nodiscard]] absl::Status MakeFolder(const std::string& folder);

[[nodiscard]] absl::Status Rename(const std::string& from, const std::string& to);

}  // namespace distill
