#include "libdistill/store/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libdistill/store/file_error.h"

namespace distill {
namespace {

constexpr absl::Duration kLookAgain = absl::Milliseconds(20);
constexpr absl::Duration kTellAgain = absl::Seconds(10);

// Of where there are no locks, too.
bool TryLock(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR); }

}  // namespace

absl::StatusOr<std::unique_ptr<FileLock>> FileLock::Take(const std::string& path,
                                                         const std::function<void()>& waiting) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return FileError("open", path, errno);
  std::unique_ptr<FileLock> lock(new FileLock(fd));
  absl::Time told = absl::InfinitePast();
  while (!TryLock(fd)) {
    if (absl::Now() - told >= kTellAgain) {
      waiting();
      told = absl::Now();
    }
    absl::SleepFor(kLookAgain);
  }
  return lock;
}

absl::StatusOr<std::unique_ptr<FileLock>> FileLock::TryTake(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return FileError("open", path, errno);
  std::unique_ptr<FileLock> lock(new FileLock(fd));
  return TryLock(fd) ? std::move(lock) : nullptr;
}

bool FileLock::IsAt(const std::string& path) const {
  struct stat own = {}, there = {};
  return fstat(fd_, &own) == 0 && stat(path.c_str(), &there) == 0 && own.st_dev == there.st_dev &&
         own.st_ino == there.st_ino;
}

FileLock::~FileLock() { close(fd_); }

}  // namespace distill
