// What is at a path, and its bytes as a whole. Paths may be of any store (store.h) where it says so; the others are
// local.
//
//   DISTILL_ASSIGN_OR_RETURN(std::string text, ReadFile(JoinPath(folder, "config.json")));
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

// InvalidArgument for s3:// and other URLs, and for an empty path: where only a local file will do.
[[nodiscard]] absl::Status RequireLocalPath(const std::string& path);

// Of any store. Also false where it cannot be known, since the store does not answer: StoreOf(path)->KindOf tells why.
bool FileExists(const std::string& path);
bool FolderExists(const std::string& path);
// A named pipe, or a shell's <(...): its bytes can be read once, and nothing of it is known before.
bool IsPipe(const std::string& path);

// The whole file, of any store. NotFound, PermissionDenied, or InvalidArgument where the path is a folder.
[[nodiscard]] absl::StatusOr<std::string> ReadFile(const std::string& path);
// InvalidArgument for the bytes of a file that is a pointer of Git LFS, in place of the file itself; ReadFile says it,
// too.
[[nodiscard]] absl::Status CheckIsNoPointer(const std::string& path, absl::string_view bytes);

// Names (without the folder, which may be of any store) of the files that start with `prefix` and end with `suffix`,
// sorted. NotFound: no such folder.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& folder, absl::string_view prefix,
                                                                 absl::string_view suffix);

// "folder/name"; `name` alone where the folder is empty.
std::string JoinPath(const std::string& folder, const std::string& name);

// What comes before the last name of a path of any store, without a slash at its end: "s3://bucket/out" of
// "s3://bucket/out/checkpoint-5/"; "" where there is nothing before it.
std::string ParentFolder(const std::string& path);
// That name: "checkpoint-5".
std::string LastName(const std::string& path);

// Absolute, without "..", links followed as far as the path exists. An empty path is the working folder; one that
// cannot be followed stays as it is, and so does one of another store but for slashes at its end.
std::string CanonicalPath(const std::string& path);

// Whether `path` is `folder` or lies in it, however deep.
bool LiesIn(const std::string& folder, const std::string& path);

}  // namespace distill
