#include "libdistill/store/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/file_error.h"
#include "libdistill/store/files.h"

namespace distill {
namespace {

// The descriptor is not needed once the file is mapped.
absl::StatusOr<std::pair<const char*, size_t>> Map(const std::string& path, int fd) {
  struct stat about = {};
  if (fstat(fd, &about) != 0) return FileError("look at", path, errno);
  if (!S_ISREG(about.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": is not a file"));
  const auto size = static_cast<size_t>(about.st_size);
  if (size == 0) return std::pair<const char*, size_t>(nullptr, 0);
  void* const data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return FileError("map", path, errno);
  return std::pair<const char*, size_t>(static_cast<const char*>(data), size);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  DISTILL_RETURN_IF_ERROR(RequireLocalPath(path));
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FileError("open", path, errno);
  const auto mapped = Map(path, fd);
  close(fd);
  if (!mapped.ok()) return mapped.status();
  return std::shared_ptr<const MappedFile>(new MappedFile(mapped->first, mapped->second));
}

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(const_cast<char*>(data_), size_);
}

}  // namespace distill
