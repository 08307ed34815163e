#include "libdistill/store/file_error.h"

#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status FileError(const char* action, const std::string& path, int error, int64_t wanted_bytes) {
  std::string message = absl::StrCat("cannot ", action, " ", path, ": ", std::strerror(error));
  if (wanted_bytes >= 0) {
    const absl::StatusOr<int64_t> free = FreeBytes(path);
    absl::StrAppend(&message, " (wanted ", wanted_bytes, " bytes",
                    free.ok() ? absl::StrCat(", ", *free, " are free)") : ")");
  }
  return absl::Status(CodeOf(error), message);
}

absl::StatusOr<int64_t> FreeBytes(const std::string& folder) {
  std::string place = CanonicalPath(folder);
  struct statvfs about = {};
  while (statvfs(place.c_str(), &about) != 0) {
    const size_t parent = place.rfind('/');
    if ((errno != ENOENT && errno != ENOTDIR) || parent == std::string::npos || place == "/") {
      return FileError("see the free space of", folder, errno);
    }
    place.resize(parent == 0 ? 1 : parent);
  }
  return static_cast<int64_t>(about.f_bavail) * static_cast<int64_t>(about.f_frsize);
}

}  // namespace distill
