#include "libdistill/store/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

absl::Status FromErrno(int error, const std::string& path) {
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

}  // namespace

absl::Status RequireLocalPath(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the path is empty");
  if (absl::StartsWith(path, "s3://")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": s3:// paths are not supported yet; copy the data to a local folder first"));
  }
  if (path.find("://") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": URLs are not supported; give a local path"));
  }
  return absl::OkStatus();
}

bool FileExists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool FolderExists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  DISTILL_RETURN_IF_ERROR(RequireLocalPath(path));
  if (FolderExists(path)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder, where a file was expected"));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return FromErrno(errno, path);
  std::string contents;
  char buffer[1 << 16];
  while (file.read(buffer, sizeof(buffer)) || file.gcount() > 0) {
    contents.append(buffer, static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) return FromErrno(errno, path);
  DISTILL_RETURN_IF_ERROR(CheckIsNoPointer(path, contents));
  return contents;
}

absl::Status CheckIsNoPointer(const std::string& path, absl::string_view bytes) {
  if (!absl::StartsWith(bytes, "version https://git-lfs")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, " is a pointer of Git LFS, not the file itself: run git lfs pull in that folder, or download it again"));
}

absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& folder, absl::string_view prefix,
                                                   absl::string_view suffix) {
  DISTILL_RETURN_IF_ERROR(RequireLocalPath(folder));
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  std::vector<std::string> names;
  for (const std::filesystem::directory_iterator end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (absl::StartsWith(name, prefix) && absl::EndsWith(name, suffix) && entry->is_regular_file(ignored)) {
      names.push_back(name);
    }
  }
  if (error) return FromErrno(error.value(), folder);
  std::sort(names.begin(), names.end());
  return names;
}

std::string JoinPath(const std::string& folder, const std::string& name) {
  if (folder.empty()) return name;
  return absl::EndsWith(folder, "/") ? folder + name : absl::StrCat(folder, "/", name);
}

std::string CanonicalPath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path.empty() ? "." : path, error);
  if (error) return path;
  const std::filesystem::path found = std::filesystem::weakly_canonical(absolute, error);
  if (error) return path;
  return (found.has_filename() || !found.has_relative_path() ? found : found.parent_path()).string();
}

bool LiesIn(const std::string& folder, const std::string& path) {
  const std::string outer = CanonicalPath(folder), inner = CanonicalPath(path);
  return inner == outer || absl::StartsWith(inner, absl::StrCat(absl::StripSuffix(outer, "/"), "/"));
}

}  // namespace distill
