#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/metrics/record_file.h"
#include "libdistill/store/file_error.h"

namespace distill {
namespace {

class LocalRecordFile : public RecordFile {
 public:
  // Takes the place of what is there at once.
  static absl::StatusOr<std::unique_ptr<RecordFile>> Make(const std::string& path, const std::string& text,
                                                          const std::string& head);
  ~LocalRecordFile() override;
  void Flush() override {}

 protected:
  void Add(const std::string& record) override;

 private:
  static constexpr int64_t kMaxWaitingBytes = int64_t{8} << 20;

  LocalRecordFile(std::string path, std::string head, int fd)
      : path_(std::move(path)), head_(std::move(head)), fd_(fd) {}
  bool IsInPlace() const;
  absl::Status MakeAnew();
  absl::Status WriteWhole(const std::string& record);
  absl::Status WriteWaiting();
  void DropOldest();

  std::string path_;
  std::string head_;
  int fd_;
  int64_t whole_bytes_ = -1;  // what the file is to be cut to before the next record; -1: it ends with a whole one
  std::deque<std::string> waiting_;
  int64_t waiting_bytes_ = 0;
  int64_t dropped_ = 0;
  bool has_failed_ = false;  // since the last record that was written
};

absl::StatusOr<std::unique_ptr<RecordFile>> LocalRecordFile::Make(const std::string& path, const std::string& text,
                                                                  const std::string& head) {
  const std::string beside = path + ".tmp";
  const int fd = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return FileError("create", beside, errno);
  std::unique_ptr<LocalRecordFile> file(new LocalRecordFile(beside, head, fd));
  DISTILL_RETURN_IF_ERROR(file->WriteWhole(text));
  if (std::rename(beside.c_str(), path.c_str()) != 0) return FileError("replace", path, errno);
  file->path_ = path;
  return file;
}

LocalRecordFile::~LocalRecordFile() {
  if (!waiting_.empty()) (void)WriteWaiting();
  const int64_t lost = dropped_ + static_cast<int64_t>(waiting_.size());
  if (lost > 0) LogWarning(absl::StrCat(path_, " lacks ", lost, " records, which could not be written"));
  if (fd_ >= 0) close(fd_);
}

void LocalRecordFile::Add(const std::string& record) {
  waiting_.push_back(record);
  waiting_bytes_ += static_cast<int64_t>(record.size());
  const absl::Status written = WriteWaiting();
  if (written.ok()) {
    if (has_failed_) LogWarning(absl::StrCat(path_, " is written again; ", dropped_, " of its records are lost"));
    has_failed_ = false;
    return;
  }
  if (!has_failed_) {
    LogWarning(absl::StrCat(written.message(), "; training continues, and what is not written is kept (at most ",
                            kMaxWaitingBytes >> 20, " MiB) and written as soon as that is possible"));
  }
  has_failed_ = true;
  DropOldest();
}

void LocalRecordFile::DropOldest() {
  for (; waiting_bytes_ > kMaxWaitingBytes; waiting_.pop_front(), ++dropped_) {
    waiting_bytes_ -= static_cast<int64_t>(waiting_.front().size());
  }
}

// The path still leads to the file that is open. What cannot be seen for another reason is left to the write.
bool LocalRecordFile::IsInPlace() const {
  struct stat ours = {}, there = {};
  if (fd_ < 0 || fstat(fd_, &ours) != 0) return false;
  if (stat(path_.c_str(), &there) != 0) return errno != ENOENT && errno != ENOTDIR;
  return ours.st_nlink > 0 && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

absl::Status LocalRecordFile::MakeAnew() {
  if (fd_ >= 0) {
    LogWarning(absl::StrCat(
        path_, " was removed or moved while this run writes it; it is made anew, without the records ", "that it had"));
    close(fd_);
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) return FileError("create", path_, errno);
  whole_bytes_ = -1;
  struct stat about = {};
  if (fstat(fd_, &about) == 0 && about.st_size > 0) return absl::OkStatus();
  waiting_.push_front(head_);
  waiting_bytes_ += static_cast<int64_t>(head_.size());
  return absl::OkStatus();
}

absl::Status LocalRecordFile::WriteWhole(const std::string& record) {
  const auto size = static_cast<int64_t>(record.size());
  if (whole_bytes_ >= 0 && ftruncate(fd_, whole_bytes_) != 0) return FileError("cut", path_, errno, size);
  struct stat about = {};
  if (fstat(fd_, &about) != 0) return FileError("write", path_, errno, size);
  whole_bytes_ = about.st_size;
  for (size_t done = 0; done < record.size();) {
    const ssize_t count = write(fd_, record.data() + done, record.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int error = errno;
      if (ftruncate(fd_, whole_bytes_) == 0) whole_bytes_ = -1;
      return FileError("write", path_, error, size);
    }
    done += static_cast<size_t>(count);
  }
  whole_bytes_ = -1;
  return absl::OkStatus();
}

absl::Status LocalRecordFile::WriteWaiting() {
  if (!IsInPlace()) DISTILL_RETURN_IF_ERROR(MakeAnew());
  while (!waiting_.empty()) {
    DISTILL_RETURN_IF_ERROR(WriteWhole(waiting_.front()));
    waiting_bytes_ -= static_cast<int64_t>(waiting_.front().size());
    waiting_.pop_front();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFile>> MakeLocalRecordFile(const std::string& path, const std::string& text,
                                                                const std::string& head) {
  return LocalRecordFile::Make(path, text, head);
}

}  // namespace distill
