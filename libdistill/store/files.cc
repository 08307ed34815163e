#include "libdistill/store/files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

absl::Status FromErrno(int error, const std::string& path) {
  const std::string message = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

bool IsRemoteFolder(const std::string& path) {
  const absl::StatusOr<std::shared_ptr<Store>> store = StoreOf(path);
  if (!store.ok()) return false;
  const absl::StatusOr<PathKind> found = (*store)->KindOf(path);
  return found.ok() && *found == PathKind::kFolder;
}

absl::string_view WithoutLastSlashes(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

absl::StatusOr<std::string> ReadRemoteFile(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<const ReadableFile> file, OpenFile(path));
  DISTILL_ASSIGN_OR_RETURN(std::string bytes, ReadAll(*file));
  DISTILL_RETURN_IF_ERROR(CheckIsNoPointer(path, bytes));
  return bytes;
}

}  // namespace

absl::Status RequireLocalPath(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the path is empty");
  if (absl::StartsWith(path, "s3://")) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": s3:// paths cannot be used here; give a local one"));
  }
  if (path.find("://") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": URLs are not supported; give a local path"));
  }
  return absl::OkStatus();
}

bool FileExists(const std::string& path) {
  if (IsRemote(path)) return OpenFile(path).ok();  // one request, where KindOf may take two
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool FolderExists(const std::string& path) {
  if (IsRemote(path)) return IsRemoteFolder(path);
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool IsPipe(const std::string& path) {
  std::error_code ignored;
  return !IsRemote(path) && std::filesystem::is_fifo(path, ignored);
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the path is empty");
  if (IsRemote(path)) return ReadRemoteFile(path);
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
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, store->List(folder));
  std::vector<std::string> names;
  for (const FolderEntry& entry : entries) {
    if (!entry.is_folder && absl::StartsWith(entry.name, prefix) && absl::EndsWith(entry.name, suffix)) {
      names.push_back(entry.name);
    }
  }
  return names;
}

std::string JoinPath(const std::string& folder, const std::string& name) {
  if (folder.empty()) return name;
  return absl::EndsWith(folder, "/") ? folder + name : absl::StrCat(folder, "/", name);
}

std::string ParentFolder(const std::string& path) {
  const absl::string_view bare = WithoutLastSlashes(path);
  const size_t slash = bare.rfind('/');
  if (slash == absl::string_view::npos) return "";
  return slash == 0 ? "/" : std::string(WithoutLastSlashes(bare.substr(0, slash)));
}

std::string LastName(const std::string& path) {
  const absl::string_view bare = WithoutLastSlashes(path);
  const size_t slash = bare.rfind('/');
  return std::string(slash == absl::string_view::npos ? bare : bare.substr(slash + 1));
}

std::string CanonicalPath(const std::string& path) {
  if (IsRemote(path)) return std::string(WithoutLastSlashes(path));
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
