#include "libdistill/transport/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/available_memory.h"

namespace distill {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;
constexpr int kMadviseCollapse = 25;  // MADV_COLLAPSE, Linux 6.1; older headers do not name it

// Maps the descriptor where a huge page may begin, so that each process sees huge pages as such.
char* MapAligned(int fd, size_t bytes) {
  const size_t reserved = bytes + kHugePage;
  void* place = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(place);
  const uintptr_t aligned = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (aligned + bytes + kPage - 1) / kPage * kPage;
  void* data = mmap(reinterpret_cast<void*>(aligned), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (data == MAP_FAILED) {
    munmap(place, reserved);
    return nullptr;
  }
  if (aligned > begin) munmap(place, aligned - begin);
  if (begin + reserved > end) munmap(reinterpret_cast<void*>(end), begin + reserved - end);
  return static_cast<char*>(data);
}

// Makes huge pages of it, where the kernel can, whatever its settings for shared memory are: with small pages the
// translation of addresses takes half of the bandwidth. One small page each is what the kernel wants to find there.
void UseHugePages(int fd, char* data, size_t bytes) {
  const size_t whole = bytes / kHugePage * kHugePage;
  for (size_t offset = 0; offset < whole; offset += kHugePage) {
    if (fallocate(fd, 0, static_cast<off_t>(offset), kPage) != 0) return;
  }
  if (whole > 0) madvise(data, whole, kMadviseCollapse);
}

}  // namespace

struct SharedMemory::Mapping {
  explicit Mapping(int fd) : fd(fd) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data != nullptr) munmap(data, bytes);
    if (fd >= 0) close(fd);
  }
  int fd;
  char* data = nullptr;
  size_t bytes = 0;
};

SharedMemory::SharedMemory(std::shared_ptr<Mapping> mapping)
    : mapping_(std::move(mapping)), data_(mapping_->data), bytes_(mapping_->bytes) {}

SharedMemory SharedMemory::Share() const { return SharedMemory(mapping_); }

absl::StatusOr<SharedMemory> SharedMemory::MapAll(std::shared_ptr<Mapping> mapping, size_t bytes) {
  mapping->data = MapAligned(mapping->fd, bytes);
  if (mapping->data == nullptr) return absl::ResourceExhaustedError(absl::StrCat("mmap: ", std::strerror(errno)));
  mapping->bytes = bytes;
  return SharedMemory(std::move(mapping));
}

absl::StatusOr<SharedMemory> SharedMemory::Create(size_t bytes, const std::string& root) {
  if (const AvailableMemory available = ReadAvailableMemory(root); bytes > available.bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(bytes, " bytes of shared memory are wanted, ", available.bytes,
                                                     " are available (limited by ", available.limited_by, ")"));
  }
  auto made = std::make_shared<Mapping>(memfd_create("libdistill", MFD_CLOEXEC));
  if (made->fd < 0) return absl::UnavailableError(absl::StrCat("memfd_create: ", std::strerror(errno)));
  if (ftruncate(made->fd, static_cast<off_t>(bytes)) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no ", bytes, " bytes of shared memory: ", std::strerror(errno)));
  }
  DISTILL_ASSIGN_OR_RETURN(SharedMemory memory, MapAll(made, bytes));
  UseHugePages(made->fd, memory.data(), bytes);
  if (const int rc = posix_fallocate(made->fd, 0, static_cast<off_t>(bytes)); rc != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no ", bytes, " bytes of shared memory: ", std::strerror(rc)));
  }
  return memory;
}

// Process, descriptor, size, and the inode, so that a descriptor used anew is not mistaken for it.
std::string SharedMemory::ticket() const {
  struct stat about = {};
  fstat(mapping_->fd, &about);
  return absl::StrCat(getpid(), " ", mapping_->fd, " ", bytes_, " ", about.st_ino);
}

absl::StatusOr<SharedMemory> SharedMemory::Map(const std::string& ticket) {
  const std::vector<std::string> fields = absl::StrSplit(ticket, ' ');
  int pid = 0;
  int fd = 0;
  uint64_t bytes = 0;
  uint64_t inode = 0;
  if (fields.size() != 4 || !absl::SimpleAtoi(fields[0], &pid) || !absl::SimpleAtoi(fields[1], &fd) ||
      !absl::SimpleAtoi(fields[2], &bytes) || !absl::SimpleAtoi(fields[3], &inode)) {
    return absl::InvalidArgumentError(absl::StrCat("'", ticket, "' is no ticket of shared memory"));
  }
  const std::string path = absl::StrCat("/proc/", pid, "/fd/", fd);
  auto made = std::make_shared<Mapping>(open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat about = {};
  if (made->fd < 0 || fstat(made->fd, &about) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot map the memory of process ", pid, " (", path, ": ", std::strerror(errno),
                     "); ranks that share a host must run as one user, in one process namespace"));
  }
  if (about.st_ino != inode || static_cast<uint64_t>(about.st_size) != bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not the memory that was offered: is its process gone?"));
  }
  return MapAll(std::move(made), bytes);
}

}  // namespace distill
