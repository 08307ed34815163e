#include "libdistill/metrics/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/file_error.h"
#include "libdistill/store/files.h"

namespace distill {

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Open(
    const std::string& path, int64_t done_steps,
    absl::FunctionRef<std::optional<int64_t>(absl::string_view line)> step_of, const std::string& head) {
  std::string kept = head, of_last_step;
  if (done_steps > 0 && FileExists(path)) {
    DISTILL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      const std::optional<int64_t> step = step_of(line);
      if (!step.has_value() || *step > done_steps) continue;
      absl::StrAppend(&kept, line, "\n");
      if (*step == done_steps) absl::StrAppend(&of_last_step, line, "\n");
    }
  }
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<RecordFile> file, Create(path + ".tmp", kept));
  if (std::rename(file->path_.c_str(), path.c_str()) != 0) return FileError("replace", path, errno);
  file->path_ = path;
  file->head_ = head;
  file->of_last_step_ = std::move(of_last_step);
  return file;
}

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Create(const std::string& path, const std::string& head) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return FileError("create", path, errno);
  std::unique_ptr<RecordFile> file(new RecordFile(path, head, fd));
  DISTILL_RETURN_IF_ERROR(file->WriteWhole(head));
  return file;
}

RecordFile::~RecordFile() {
  if (!waiting_.empty()) (void)WriteWaiting();
  const int64_t lost = dropped_ + static_cast<int64_t>(waiting_.size());
  if (lost > 0) LogWarning(absl::StrCat(path_, " lacks ", lost, " records, which could not be written"));
  if (fd_ >= 0) close(fd_);
}

void RecordFile::Append(const std::string& record) {
  if (absl::StrContains(of_last_step_, record)) return;
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

void RecordFile::DropOldest() {
  for (; waiting_bytes_ > kMaxWaitingBytes; waiting_.pop_front(), ++dropped_) {
    waiting_bytes_ -= static_cast<int64_t>(waiting_.front().size());
  }
}

// The path still leads to the file that is open. What cannot be seen for another reason is left to the write.
bool RecordFile::IsInPlace() const {
  struct stat ours = {}, there = {};
  if (fd_ < 0 || fstat(fd_, &ours) != 0) return false;
  if (stat(path_.c_str(), &there) != 0) return errno != ENOENT && errno != ENOTDIR;
  return ours.st_nlink > 0 && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

absl::Status RecordFile::MakeAnew() {
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

absl::Status RecordFile::WriteWhole(const std::string& record) {
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

absl::Status RecordFile::WriteWaiting() {
  if (!IsInPlace()) DISTILL_RETURN_IF_ERROR(MakeAnew());
  while (!waiting_.empty()) {
    DISTILL_RETURN_IF_ERROR(WriteWhole(waiting_.front()));
    waiting_bytes_ -= static_cast<int64_t>(waiting_.front().size());
    waiting_.pop_front();
  }
  return absl::OkStatus();
}

}  // namespace distill
