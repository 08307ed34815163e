#include "libdistill/checkpoint/durable_files.h"

#include <fcntl.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

absl::Status SystemError(const char* action, const std::string& path, int error) {
  const std::string message = absl::StrCat("cannot ", action, " ", path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM || error == EROFS) return absl::PermissionDeniedError(message);
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

struct CloseFile {
  void operator()(const int* fd) const {
    close(*fd);
    delete fd;
  }
};
using OwnedFd = std::unique_ptr<const int, CloseFile>;

absl::StatusOr<OwnedFd> Open(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (fd < 0) return SystemError("open", path, errno);
  return OwnedFd(new int(fd));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListEntries(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) return SystemError("list", folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status WriteWholeFile(const std::string& path, const std::string& bytes) {
  DISTILL_ASSIGN_OR_RETURN(const OwnedFd fd, Open(path, O_WRONLY | O_CREAT | O_TRUNC));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = write(*fd, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno != EINTR) return SystemError("write", path, errno);
    if (count > 0) done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::Status Sync(const std::string& path) {
  DISTILL_ASSIGN_OR_RETURN(const OwnedFd fd, Open(path, O_RDONLY));
  if (fsync(*fd) != 0) return SystemError("sync", path, errno);
  return absl::OkStatus();
}

absl::StatusOr<FileEntry> Checksum(const std::string& folder, const std::string& name) {
  const std::string path = JoinPath(folder, name);
  DISTILL_ASSIGN_OR_RETURN(const OwnedFd fd, Open(path, O_RDONLY));
  constexpr size_t kBlockBytes = 1 << 20;
  std::vector<char> block(kBlockBytes);
  XXH3_state_t hash;
  XXH3_128bits_reset(&hash);
  FileEntry entry{.name = name};
  for (;;) {
    const ssize_t count = read(*fd, block.data(), kBlockBytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("read", path, errno);
    if (count == 0) break;
    XXH3_128bits_update(&hash, block.data(), static_cast<size_t>(count));
    entry.size_bytes += static_cast<uint64_t>(count);
  }
  const XXH128_hash_t sum = XXH3_128bits_digest(&hash);
  entry.xxh3_high = sum.high64;
  entry.xxh3_low = sum.low64;
  return entry;
}

absl::Status RemoveFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  return error ? SystemError("remove", folder, error.value()) : absl::OkStatus();
}

absl::Status MakeFreshFolder(const std::string& folder) {
  DISTILL_RETURN_IF_ERROR(RemoveFolder(folder));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return error ? SystemError("make", folder, error.value()) : absl::OkStatus();
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) return SystemError("rename to", to, errno);
  return absl::OkStatus();
}

}  // namespace distill
