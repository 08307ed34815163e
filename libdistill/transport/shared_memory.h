// Memory that the ranks of a host share. It has no name in any file system: nothing is left when ranks are killed, and
// a small /dev/shm (containers) is no limit.
//
//   DISTILL_ASSIGN_OR_RETURN(SharedMemory mine, SharedMemory::Create(bytes));
//   // ... the others get mine.ticket() through the rendezvous, while this rank lives ...
//   DISTILL_ASSIGN_OR_RETURN(SharedMemory theirs, SharedMemory::Map(ticket));
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace distill {

class SharedMemory {
 public:
  // Zeroed, and reserved: ResourceExhausted when the machine has not that much, instead of a SIGBUS later.
  [[nodiscard]] static absl::StatusOr<SharedMemory> Create(size_t bytes);
  // Maps what another process of this user created. FailedPrecondition: that process is gone, or cannot be looked into.
  [[nodiscard]] static absl::StatusOr<SharedMemory> Map(const std::string& ticket);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // What Map needs; valid while this object lives in the process that created it.
  std::string ticket() const;

 private:
  SharedMemory(int fd, char* data, size_t bytes) : fd_(fd), data_(data), bytes_(bytes) {}

  int fd_ = -1;
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace distill
