// A file or folder that even its owner cannot remove or change while the object lives: chattr +i, or what permissions
// can do where that is not allowed.
//
//   Immutable held(path);
//   if (!held.holds()) { WARN("skipped: ..."); return; }
#pragma once

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace distill::testing {

class Immutable {
 public:
  explicit Immutable(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    is_set_ = Set(true);
    if (is_set_ || geteuid() == 0) return;
    locked_ = std::filesystem::is_directory(path) ? path : std::filesystem::path(path).parent_path().string();
    std::filesystem::permissions(locked_, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  }
  ~Immutable() {
    if (is_set_) Set(false);
    // What it locked may have another name by now.
    std::error_code ignored;
    if (!locked_.empty()) std::filesystem::permissions(locked_, std::filesystem::perms::owner_all, ignored);
    close(fd_);
  }
  Immutable(const Immutable&) = delete;
  Immutable& operator=(const Immutable&) = delete;

  bool holds() const { return is_set_ || !locked_.empty(); }

 private:
  bool Set(bool on) const {
    int flags = 0;
    if (ioctl(fd_, FS_IOC_GETFLAGS, &flags) != 0) return false;
    flags = on ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
    return ioctl(fd_, FS_IOC_SETFLAGS, &flags) == 0;
  }

  int fd_;
  bool is_set_ = false;
  std::string locked_;
};

}  // namespace distill::testing
