// Files that survive a crash, and their checksums.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/proto/checkpoint_messages.h"

namespace distill {

// Names of a folder's entries, sorted.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ListEntries(const std::string& folder);

// Creates and writes the file; not synced.
[[nodiscard]] absl::Status WriteWholeFile(const std::string& path, const std::string& bytes);

// Blocks until a file's contents, or a folder's entries, are on disk.
[[nodiscard]] absl::Status Sync(const std::string& path);

// Reads the file through: its size and XXH3. NotFound where there is none.
[[nodiscard]] absl::StatusOr<FileEntry> Checksum(const std::string& folder, const std::string& name);

// Removes the folder and all that is in it; one that is not there is fine.
[[nodiscard]] absl::Status RemoveFolder(const std::string& folder);

// With its parents; one that is there already is fine.
[[nodiscard]] absl::Status MakeFolder(const std::string& folder);

[[nodiscard]] absl::Status Rename(const std::string& from, const std::string& to);

}  // namespace distill
