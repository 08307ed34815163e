// Tells whether another process of this machine still runs; a zombie does not, and a process id used anew is not it.
#pragma once

#include <utility>

#include "absl/status/statusor.h"

namespace distill {

class ProcessWatch {
 public:
  // The process must be alive. Unimplemented on kernels before 5.3.
  [[nodiscard]] static absl::StatusOr<ProcessWatch> Open(int pid);

  ProcessWatch() = default;
  ProcessWatch(ProcessWatch&& other) noexcept : pid_(other.pid_), fd_(std::exchange(other.fd_, -1)) {}
  ProcessWatch& operator=(ProcessWatch&& other) noexcept;
  ~ProcessWatch();

  int pid() const { return pid_; }
  // One system call. A watch that was never opened says true.
  bool Alive() const;

 private:
  int pid_ = 0;
  int fd_ = -1;
};

}  // namespace distill
