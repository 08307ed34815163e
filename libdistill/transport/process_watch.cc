#include "libdistill/transport/process_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace distill {

absl::StatusOr<ProcessWatch> ProcessWatch::Open(int pid) {
  ProcessWatch watch;
  watch.pid_ = pid;
  watch.fd_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (watch.fd_ >= 0) return watch;
  if (errno == ENOSYS || errno == EPERM) return absl::UnimplementedError("this kernel has no pidfd_open");
  return absl::UnavailableError(absl::StrCat("process ", pid, " cannot be watched: ", std::strerror(errno)));
}

ProcessWatch& ProcessWatch::operator=(ProcessWatch&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(fd_, other.fd_);
  return *this;
}

ProcessWatch::~ProcessWatch() {
  if (fd_ >= 0) close(fd_);
}

bool ProcessWatch::Alive() const {
  if (fd_ < 0) return true;
  pollfd entry = {fd_, POLLIN, 0};
  return poll(&entry, 1, 0) == 0;
}

}  // namespace distill
