#include "libdistill/store/local_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/file_error.h"

namespace distill {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // read(2) gives at most 2 GiB at a time

class LocalFile : public ReadableFile {
 public:
  LocalFile(std::string path, int fd, const struct stat& about)
      : path_(std::move(path)),
        fd_(fd),
        size_(about.st_size),
        version_(
            absl::StrCat(about.st_size, "-", about.st_ino, "-", about.st_mtim.tv_sec, ".", about.st_mtim.tv_nsec)) {}
  ~LocalFile() override { close(fd_); }
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;

  const std::string& path() const override { return path_; }
  int64_t size() const override { return size_; }
  const std::string& version() const override { return version_; }

  absl::Status ReadAt(int64_t offset, absl::Span<char> out) const override {
    DISTILL_RETURN_IF_ERROR(CheckRange(*this, offset, out.size()));
    while (!out.empty()) {
      const ssize_t count = pread(fd_, out.data(), std::min(out.size(), kMostAtOnce), offset);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return FileError("read", path_, errno);
      if (count == 0) {
        return absl::DataLossError(
            absl::StrCat(path_, ": ends at byte ", offset, ", but had ", size_, " when it was opened: was it cut?"));
      }
      out.remove_prefix(static_cast<size_t>(count));
      offset += count;
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const int fd_;
  const int64_t size_;
  const std::string version_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ReadableFile>> OpenLocalFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path, errno);
  struct stat about = {};
  absl::Status status;
  if (fstat(fd, &about) != 0) status = FileError("look at", path, errno);
  if (status.ok() && !S_ISREG(about.st_mode)) {
    status = absl::InvalidArgumentError(absl::StrCat(
        path, S_ISDIR(about.st_mode) ? ": is a folder, where a file was expected" : ": is not a regular file"));
  }
  if (!status.ok()) {
    close(fd);
    return status;
  }
  return std::make_shared<LocalFile>(path, fd, about);
}

}  // namespace distill
