// What this process writes to stderr while the object lives.
//
//   const CapturedStderr said;
//   ... something that warns ...
//   CHECK(absl::StrContains(said.Text(), "passing over"));
#pragma once

#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace distill::testing {

class CapturedStderr {
 public:
  CapturedStderr() : file_(std::tmpfile()), before_(dup(STDERR_FILENO)) {
    if (file_ == nullptr || before_ < 0) throw std::runtime_error("cannot capture stderr");
    std::fflush(stderr);
    dup2(fileno(file_), STDERR_FILENO);
  }
  ~CapturedStderr() {
    std::fflush(stderr);
    dup2(before_, STDERR_FILENO);
    close(before_);
    std::fclose(file_);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  std::string Text() const {
    std::fflush(stderr);
    std::string text(static_cast<size_t>(lseek(fileno(file_), 0, SEEK_END)), '\0');
    const ssize_t size = pread(fileno(file_), text.data(), text.size(), 0);
    return text.substr(0, size < 0 ? 0 : static_cast<size_t>(size));
  }

 private:
  FILE* file_;
  int before_;
};

}  // namespace distill::testing
