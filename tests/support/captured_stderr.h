// What this process writes to stderr while the object lives.
//
//   const CapturedStderr said;
//   ... something that warns ...
//   CHECK(absl::StrContains(said.Text(), "passing over"));
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace distill::testing {

class CapturedStderr {
 public:
  CapturedStderr() : before_(dup(STDERR_FILENO)) {
    if (before_ < 0 || pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0) throw std::runtime_error("cannot capture stderr");
    dup2(ends_[1], STDERR_FILENO);
  }
  ~CapturedStderr() {
    dup2(before_, STDERR_FILENO);
    for (const int fd : {before_, ends_[0], ends_[1]}) close(fd);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  // All so far: at most a pipe's 64 KiB between two calls.
  const std::string& Text() const {
    char bytes[4096];
    for (ssize_t size; (size = read(ends_[0], bytes, sizeof(bytes))) > 0;) text_.append(bytes, size);
    return text_;
  }

 private:
  int before_;
  int ends_[2] = {-1, -1};
  mutable std::string text_;
};

}  // namespace distill::testing
