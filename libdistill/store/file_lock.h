// A lock between the processes of a host, and between hosts where their file system has such locks: one of them works,
// and the others wait for what it makes.
//
//   DISTILL_ASSIGN_OR_RETURN(auto lock, FileLock::Take(JoinPath(folder, "lock"), [] { LogInfo("waiting ..."); }));
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace distill {

class FileLock {
 public:
  // Makes the file, whose folder must exist, and blocks until nobody else holds it; `waiting` is called at once where
  // somebody does, and every ten seconds from then on. The system gives the lock back when its process ends, however
  // it does. A file system without locks gives one to all who ask. NotFound, PermissionDenied.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FileLock>> Take(const std::string& path,
                                                                      const std::function<void()>& waiting);
  // The same without waiting: null where somebody else holds it.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FileLock>> TryTake(const std::string& path);
  // Whether the locked file still has that name: who waited for the lock may find it removed, or renamed, by who had
  // it.
  bool IsAt(const std::string& path) const;
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace distill
