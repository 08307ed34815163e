#include "libdistill/store/local_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/file_error.h"
#include "libdistill/store/files.h"
#include "libdistill/store/followed_folder.h"

namespace distill {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // read(2) gives at most 2 GiB at a time

class LocalFile : public ReadableFile {
 public:
  LocalFile(std::string path, int fd, const struct stat& about)
      : path_(std::move(path)), fd_(fd), size_(about.st_size), version_(LocalVersion(about)) {}
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
      if (count < 0) {
        return absl::UnavailableError(absl::StrCat(FileError("read", path_, errno).message(), " (at byte ", offset,
                                                   "): check the disk, and start again"));
      }
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

// Of a pipe, which gives its bytes once: whoever opens it again waits for another writer.
absl::StatusOr<std::string> ReadToEnd(const std::string& path, int fd) {
  std::string bytes;
  std::vector<char> buffer(size_t{1} << 16);
  for (;;) {
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("read", path, errno);
    if (count == 0) return bytes;
    bytes.append(buffer.data(), static_cast<size_t>(count));
  }
}

// Under a temporary name beside the file's, until it is complete.
class LocalFileWriter : public FileWriter {
 public:
  LocalFileWriter(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), follower_(FollowerOf(path_)), fd_(fd) {}
  ~LocalFileWriter() override {
    if (fd_ < 0) return;
    close(fd_);
    unlink(temporary_.c_str());
  }
  LocalFileWriter(const LocalFileWriter&) = delete;
  LocalFileWriter& operator=(const LocalFileWriter&) = delete;

  absl::Status Append(absl::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t count = write(fd_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return FileError("write", path_, errno, static_cast<int64_t>(bytes.size()));
      if (follower_ != nullptr) follower_->Add(bytes.substr(0, static_cast<size_t>(count)));
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    EndFollowed(follower_.get(), fd_);
    if (fsync(fd_) != 0) return FileError("sync", path_, errno);
    close(std::exchange(fd_, -1));
    DISTILL_RETURN_IF_ERROR(Rename(temporary_, path_));
    return Sync(FolderOf(path_));
  }

  static std::string FolderOf(const std::string& path) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    return folder.empty() ? "." : folder;
  }

 private:
  const std::string path_, temporary_;
  const std::shared_ptr<FileFollower> follower_;
  int fd_;
};

class LocalStore : public Store {
 public:
  bool is_remote() const override { return false; }

  absl::StatusOr<std::shared_ptr<const ReadableFile>> Open(const std::string& path) override {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return FileError("open", path, errno);
    struct stat about = {};
    absl::Status status;
    if (fstat(fd, &about) != 0) status = FileError("look at", path, errno);
    if (status.ok() && S_ISFIFO(about.st_mode)) {  // <(zcat train.jsonl.gz)
      absl::StatusOr<std::string> bytes = ReadToEnd(path, fd);
      close(fd);
      DISTILL_RETURN_IF_ERROR(bytes.status());
      return MakeMemoryFile(path, *std::move(bytes));
    }
    if (status.ok() && !S_ISREG(about.st_mode)) {
      status = absl::InvalidArgumentError(absl::StrCat(
          path, S_ISDIR(about.st_mode) ? ": is a folder, where a file was expected" : ": is not a regular file"));
    }
    if (status.ok()) return std::make_shared<LocalFile>(path, fd, about);
    close(fd);
    return status;
  }

  absl::StatusOr<std::unique_ptr<FileWriter>> Create(const std::string& path) override {
    const std::string temporary = absl::StrCat(TemporaryName(path), ".part");
    const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return FileError("create", path, errno);
    return std::make_unique<LocalFileWriter>(path, temporary, fd);
  }

  absl::StatusOr<PathKind> KindOf(const std::string& path) override {
    struct stat about = {};
    if (stat(path.c_str(), &about) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return PathKind::kNothing;
      return FileError("look at", path, errno);
    }
    return S_ISDIR(about.st_mode) ? PathKind::kFolder : PathKind::kFile;
  }

  absl::StatusOr<std::vector<FolderEntry>> List(const std::string& folder) override {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListEntries(folder));
    std::vector<FolderEntry> entries;
    for (const std::string& name : names) {
      struct stat about = {};
      if (stat(JoinPath(folder, name).c_str(), &about) != 0) continue;  // a link to nothing, or just removed
      if (!S_ISDIR(about.st_mode) && !S_ISREG(about.st_mode)) continue;
      entries.push_back({name, S_ISDIR(about.st_mode), S_ISDIR(about.st_mode) ? 0 : about.st_size});
    }
    return entries;
  }

  absl::StatusOr<std::vector<std::string>> ListAll(const std::string& folder, const std::string& prefix) override {
    namespace fs = std::filesystem;
    std::vector<std::string> names;
    std::error_code error;
    for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      std::error_code ignored;
      std::string name = it->path().lexically_relative(folder).string();
      if (it->is_regular_file(ignored) && absl::StartsWith(name, prefix)) names.push_back(std::move(name));
    }
    if (error && error.value() != ENOENT) return FileError("list", folder, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
    return FileError("remove", path, errno);
  }
};

}  // namespace

std::string LocalVersion(const struct stat& about) {
  return absl::StrCat(about.st_size, "-", about.st_ino, "-", about.st_mtim.tv_sec, ".", about.st_mtim.tv_nsec);
}

std::shared_ptr<Store> MakeLocalStore() { return std::make_shared<LocalStore>(); }

}  // namespace distill
