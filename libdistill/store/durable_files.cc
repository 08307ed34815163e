#include "libdistill/store/durable_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <random>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/file_error.h"
#include "libdistill/store/files.h"
#include "libdistill/store/followed_folder.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

// use(descriptor) while the file is open.
absl::Status WithFile(const std::string& path, int flags, const auto& use) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0) return FileError("open", path, errno);
  const absl::Status status = use(fd);
  close(fd);
  return status;
}

absl::StatusOr<std::vector<std::string>> ListRemoteEntries(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<FolderEntry> entries, store->List(folder));
  std::vector<std::string> names;
  for (const FolderEntry& entry : entries) names.push_back(entry.name);
  return names;
}

absl::Status WriteRemoteFile(const std::string& path, const std::string& bytes) {
  DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> file, CreateFile(path));
  DISTILL_RETURN_IF_ERROR(file->Append(bytes));
  return file->Commit();
}

absl::Status RemoveRemoteFolder(const std::string& folder) {
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store, StoreOf(folder));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, store->ListAll(folder, ""));
  for (const std::string& name : names) DISTILL_RETURN_IF_ERROR(store->Remove(JoinPath(folder, name)));
  return absl::OkStatus();
}

// Errors name what was asked for, whichever of its parents cannot be made.
absl::Status MakeFolderAndParents(const std::string& folder, const std::string& asked) {
  if (folder.empty() || FolderExists(folder)) return absl::OkStatus();
  const std::string parent = ParentFolder(folder);
  DISTILL_RETURN_IF_ERROR(MakeFolderAndParents(parent, asked));
  if (mkdir(folder.c_str(), 0777) != 0 && !(errno == EEXIST && FolderExists(folder))) {
    return FileError("make", asked, errno, 0);
  }
  // The new folder's entry is its parent's: without this a crash may take the folder away with all that it holds.
  const absl::Status synced = Sync(parent.empty() ? "." : parent);
  return absl::IsPermissionDenied(synced) ? absl::OkStatus() : synced;  // one may write where one may not read
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListEntries(const std::string& folder) {
  if (IsRemote(folder)) return ListRemoteEntries(folder);
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return FileError("list", folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

bool EntryExists(const std::string& path) {
  if (IsRemote(path)) return FileExists(path) || FolderExists(path);
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

absl::Status WriteWholeFile(const std::string& path, const std::string& bytes) {
  if (IsRemote(path)) return WriteRemoteFile(path, bytes);
  const std::shared_ptr<FileFollower> follower = FollowerOf(path);
  return WithFile(path, O_WRONLY | O_CREAT | O_TRUNC, [&](int fd) {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t count = write(fd, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno != EINTR) return FileError("write", path, errno, static_cast<int64_t>(bytes.size()));
      if (count > 0) done += static_cast<size_t>(count);
    }
    if (follower != nullptr) follower->Add(bytes);
    EndFollowed(follower.get(), fd);
    return absl::OkStatus();
  });
}

absl::Status Sync(const std::string& path) {
  if (IsRemote(path)) return absl::OkStatus();
  return WithFile(path, O_RDONLY, [&](int fd) {
    if (fsync(fd) == 0) return absl::OkStatus();
    const int error = errno;
    struct stat about = {};
    const bool has_size = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
    return FileError("sync", path, error, has_size ? about.st_size : -1);
  });
}

absl::Status RemoveFolder(const std::string& folder) {
  if (IsRemote(folder)) return RemoveRemoteFolder(folder);
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return error ? FileError("remove", folder, error.value()) : absl::OkStatus();
}

absl::Status MakeFolder(const std::string& folder) {
  if (IsRemote(folder)) return absl::OkStatus();
  return MakeFolderAndParents(folder, folder);
}

std::string TemporaryName(const std::string& path) {
  std::random_device random;  // processes of two containers may have the same id
  return absl::StrCat(path, ".", absl::Hex(random(), absl::kZeroPad8), absl::Hex(random(), absl::kZeroPad8));
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (IsRemote(from) || IsRemote(to)) {
    return absl::UnimplementedError(absl::StrCat("cannot rename ", from, " to ", to, ": objects have one name"));
  }
  if (rename(from.c_str(), to.c_str()) != 0) return FileError("rename to", to, errno);
  return absl::OkStatus();
}

}  // namespace distill
