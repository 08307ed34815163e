#include "libdistill/checkpoint/output_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/checkpoint/lease.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/store/durable_files.h"
#include "libdistill/store/file_error.h"
#include "libdistill/store/files.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

Lease LeaseIn(const std::string& path) { return ParseLease(ReadFile(path).value_or("")); }

enum class Locked { kYes, kByAnother, kUnsupported };

absl::StatusOr<Locked> TryLock(int fd, const std::string& path) {
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(fd, F_OFD_SETLK, &whole) == 0) return Locked::kYes;
  if (errno == EAGAIN || errno == EACCES) return Locked::kByAnother;
  if (errno == ENOLCK || errno == ENOTSUP || errno == EINVAL || errno == ENOSYS) return Locked::kUnsupported;
  return FileError("lock", path, errno);
}

class FileLock : public OutputLock::Holder {
 public:
  FileLock(std::string output_dir, OutputLockTimes times)
      : output_dir_(std::move(output_dir)), path_(JoinPath(output_dir_, ".lock")), times_(times), own_(OwnLease()) {}
  ~FileLock() override;

  absl::Status Take() override;
  absl::Status Confirm() override;

 private:
  absl::Status AwaitOtherHost(const Lease& other);
  absl::Status WriteLease();
  absl::Status TakeAgainWhereGone();
  void Renew();

  const std::string output_dir_, path_;
  const OutputLockTimes times_;
  const Lease own_;
  int fd_ = -1;
  bool is_taken_ = false;
  int64_t counter_ = 0;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_ending_ = false;
  std::thread renewer_;
};

absl::Status FileLock::Take() {
  DISTILL_RETURN_IF_ERROR(MakeFolder(output_dir_));
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) return FileError("open", path_, errno);
  DISTILL_ASSIGN_OR_RETURN(const Locked locked, TryLock(fd_, path_));
  Lease other = LeaseIn(path_);
  if (locked == Locked::kByAnother) return InUse(output_dir_, other);
  // Of this boot, and not locked: that process has ended. Where there are no locks, the lease alone tells.
  const bool is_of_here = locked == Locked::kYes && other["boot"] == own_.at("boot");
  if (other.count("pid") > 0 && !is_of_here) DISTILL_RETURN_IF_ERROR(AwaitOtherHost(other));
  DISTILL_RETURN_IF_ERROR(WriteLease());
  is_taken_ = true;
  DISTILL_ASSIGN_OR_RETURN(renewer_, StartThread("the lease of output_dir", [this] { Renew(); }));
  return absl::OkStatus();
}

absl::Status FileLock::AwaitOtherHost(const Lease& other) {
  SayWaits(output_dir_, other, times_.patience);
  const absl::Time end = absl::Now() + times_.patience;
  while (absl::Now() < end) {
    absl::SleepFor(std::min(times_.patience / 20, absl::Seconds(1)));
    const Lease now = LeaseIn(path_);
    // In the middle of being rewritten, or given back.
    if (now.count("counter") > 0 && now != other) return InUse(output_dir_, now);
  }
  SayTakesOver(output_dir_, other, times_.patience);
  return absl::OkStatus();
}

absl::Status FileLock::WriteLease() {
  const std::string text = LeaseText(own_, counter_++);
  const auto size = static_cast<int64_t>(text.size());
  if (pwrite(fd_, text.data(), text.size(), 0) != size) return FileError("write", path_, errno, size);
  if (ftruncate(fd_, size) != 0 || fsync(fd_) != 0) return FileError("write", path_, errno, size);
  return absl::OkStatus();
}

// The file may have gone with the folder, which a save has made anew. FailedPrecondition: another run has it.
absl::Status FileLock::TakeAgainWhereGone() {
  struct stat own = {}, there = {};
  if (fstat(fd_, &own) != 0) return absl::OkStatus();
  if (stat(path_.c_str(), &there) == 0 && there.st_ino == own.st_ino && there.st_dev == own.st_dev) {
    return absl::OkStatus();
  }
  const int fd = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return absl::OkStatus();  // there is no folder now
  if (TryLock(fd, path_).value_or(Locked::kUnsupported) == Locked::kByAnother) {
    close(fd);
    return InUse(output_dir_, LeaseIn(path_));
  }
  close(std::exchange(fd_, fd));
  return absl::OkStatus();
}

// A lease that somebody emptied is written anew by the next renewal.
absl::Status FileLock::Confirm() {
  Lease now = LeaseIn(path_);
  return IsOfSameRun(now, own_) || now["pid"].empty() ? absl::OkStatus() : InUse(output_dir_, now);
}

// A renewal that fails (a full disk) ends nothing: on this host the lock holds. Nor does one that finds another run's
// lease, which has waited in vain for this one's: what it writes is not overwritten.
void FileLock::Renew() {
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, absl::ToChronoMilliseconds(times_.renewal), [this] { return is_ending_; })) {
    absl::Status confirmed = TakeAgainWhereGone();
    confirmed.Update(Confirm());
    if (confirmed.ok()) {
      is_taken_ = WriteLease().ok() || is_taken_;
    } else if (std::exchange(is_taken_, false)) {
      LogWarning(absl::StrCat("this run has lost its output_dir, and both write it now: ", confirmed.message()));
    }
  }
}

FileLock::~FileLock() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ends_.notify_all();
  if (renewer_.joinable()) renewer_.join();
  if (is_taken_ && Confirm().ok()) [[maybe_unused]]
    const int ignored = ftruncate(fd_, 0);
  if (fd_ >= 0) close(fd_);
}

}  // namespace

std::unique_ptr<OutputLock::Holder> MakeFileLock(const std::string& output_dir, const OutputLockTimes& times) {
  return std::make_unique<FileLock>(output_dir, times);
}

OutputLock::OutputLock(std::unique_ptr<Holder> holder) : holder_(std::move(holder)) {}
OutputLock::~OutputLock() = default;

absl::Status OutputLock::Confirm() const { return holder_->Confirm(); }

absl::StatusOr<std::unique_ptr<OutputLock>> OutputLock::Take(const std::string& output_dir,
                                                             const OutputLockTimes& times) {
  std::unique_ptr<Holder> holder =
      IsRemote(output_dir) ? MakeStoreLock(output_dir, times) : MakeFileLock(output_dir, times);
  DISTILL_RETURN_IF_ERROR(holder->Take());
  return std::unique_ptr<OutputLock>(new OutputLock(std::move(holder)));
}

}  // namespace distill
