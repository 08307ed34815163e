#include "libdistill/store/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libdistill/store/file_error.h"

namespace distill {
namespace {

constexpr absl::Duration kLookAgain = absl::Milliseconds(20);
constexpr absl::Duration kTellAgain = absl::Seconds(10);

}  // namespace

absl::StatusOr<std::unique_ptr<FileLock>> FileLock::Take(const std::string& path,
                                                         const std::function<void()>& waiting) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return FileError("open", path, errno);
  std::unique_ptr<FileLock> lock(new FileLock(fd));
  absl::Time told = absl::InfinitePast();
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;  // there are no locks here
    if (absl::Now() - told >= kTellAgain) {
      waiting();
      told = absl::Now();
    }
    absl::SleepFor(kLookAgain);
  }
  return lock;
}

FileLock::~FileLock() { close(fd_); }

}  // namespace distill
