// Memory that the ranks of a host share. It has no name in any file system: nothing is left when ranks are killed, and
// a small /dev/shm (containers) is no limit. In huge pages where the kernel has them.
//
//   DISTILL_ASSIGN_OR_RETURN(SharedMemory mine, SharedMemory::Create(bytes));
//   // ... the others get mine.ticket() through the rendezvous, while this rank lives ...
//   DISTILL_ASSIGN_OR_RETURN(SharedMemory theirs, SharedMemory::Map(ticket));
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace distill {

class SharedMemory {
 public:
  // Zeroed, and reserved: ResourceExhausted when the machine, or the limit of the container, has not that much left,
  // instead of a SIGBUS or the out-of-memory killer later. `root` is a folder in front of /proc and /sys, for tests.
  [[nodiscard]] static absl::StatusOr<SharedMemory> Create(size_t bytes, const std::string& root = "");
  // Maps what another process of this user created. FailedPrecondition: that process is gone, or cannot be looked into.
  [[nodiscard]] static absl::StatusOr<SharedMemory> Map(const std::string& ticket);

  SharedMemory() = default;
  SharedMemory(SharedMemory&&) = default;
  SharedMemory& operator=(SharedMemory&&) = default;

  // Another owner of this very mapping, which ends with the last of them.
  SharedMemory Share() const;

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // What Map needs; valid while an owner of it lives in the process that created it.
  std::string ticket() const;

 private:
  struct Mapping;
  explicit SharedMemory(std::shared_ptr<Mapping> mapping);
  static absl::StatusOr<SharedMemory> MapAll(std::shared_ptr<Mapping> mapping, size_t bytes);

  std::shared_ptr<Mapping> mapping_;
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

// Where ranks that share memory get it from. Ranks that are threads of one process need one that knows them all, so
// that they share one mapping: the thread sanitizer sees nothing of memory that is mapped twice.
class SharedMemorySource {
 public:
  virtual ~SharedMemorySource() = default;
  [[nodiscard]] virtual absl::StatusOr<SharedMemory> Create(size_t bytes) { return SharedMemory::Create(bytes); }
  [[nodiscard]] virtual absl::StatusOr<SharedMemory> Map(const std::string& ticket) {
    return SharedMemory::Map(ticket);
  }
};

}  // namespace distill
