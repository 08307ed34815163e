#include "libdistill/comm/plain_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace distill {

absl::StatusOr<std::unique_ptr<CommMemory>> PlainMemory::Create(int64_t bytes) {
  void* data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("no ", bytes, " bytes of memory: ", std::strerror(errno)));
  }
  return std::unique_ptr<CommMemory>(new PlainMemory(static_cast<char*>(data), bytes));
}

PlainMemory::~PlainMemory() { munmap(data(), static_cast<size_t>(bytes())); }

}  // namespace distill
