// Files that survive a crash, in any store (store.h). An object of S3 is stored for good when it is there, and its
// folder is no more than the begin of its name: there is nothing to sync or to make.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace distill {

// Names of a folder's entries, sorted. NotFound: no such folder.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ListEntries(const std::string& folder);

// Whether the folder has an entry of that path: also a link to nothing.
bool EntryExists(const std::string& path);

// Creates and writes the file; a local one is not synced.
[[nodiscard]] absl::Status WriteWholeFile(const std::string& path, const std::string& bytes);

// Blocks until a file's contents, or a folder's entries, are on disk.
[[nodiscard]] absl::Status Sync(const std::string& path);

// Removes the folder and all that is in it; one that is not there is fine.
[[nodiscard]] absl::Status RemoveFolder(const std::string& folder);

// With its parents, each new one on disk when this returns (its parent is synced); one that is there already is fine.
[[nodiscard]] absl::Status MakeFolder(const std::string& folder);

// "PATH.RANDOM", which no other process or host takes: for a file that gets the name PATH when it is whole.
std::string TemporaryName(const std::string& path);

// Of local files and folders. Unimplemented: S3 cannot.
[[nodiscard]] absl::Status Rename(const std::string& from, const std::string& to);

}  // namespace distill
