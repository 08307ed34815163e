#include "libdistill/transport/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace distill {
namespace {

// What the machine could still give. Reserving more would not fail, but summon the kernel's out-of-memory killer.
uint64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::string unit;
  uint64_t kibibytes = 0;
  while (file >> name >> kibibytes && std::getline(file, unit)) {
    if (name == "MemAvailable:") return kibibytes << 10;
  }
  return std::numeric_limits<uint64_t>::max();  // not known: the reservation decides
}

}  // namespace

absl::StatusOr<SharedMemory> SharedMemory::Create(size_t bytes) {
  if (const uint64_t available = AvailableBytes(); bytes > available) {
    return absl::ResourceExhaustedError(
        absl::StrCat(bytes, " bytes of shared memory are wanted, ", available, " are available"));
  }
  SharedMemory made(memfd_create("libdistill", MFD_CLOEXEC), nullptr, 0);
  if (made.fd_ < 0) return absl::UnavailableError(absl::StrCat("memfd_create: ", std::strerror(errno)));
  if (const int rc = posix_fallocate(made.fd_, 0, static_cast<off_t>(bytes)); rc != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no ", bytes, " bytes of shared memory: ", std::strerror(rc)));
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.fd_, 0);
  if (data == MAP_FAILED) return absl::ResourceExhaustedError(absl::StrCat("mmap: ", std::strerror(errno)));
  made.data_ = static_cast<char*>(data);
  made.bytes_ = bytes;
  return made;
}

// Process, descriptor, size, and the inode, so that a descriptor used anew is not mistaken for it.
std::string SharedMemory::ticket() const {
  struct stat about = {};
  fstat(fd_, &about);
  return absl::StrCat(getpid(), " ", fd_, " ", bytes_, " ", about.st_ino);
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
  SharedMemory made(open(path.c_str(), O_RDWR | O_CLOEXEC), nullptr, 0);
  struct stat about = {};
  if (made.fd_ < 0 || fstat(made.fd_, &about) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot map the memory of process ", pid, " (", path, ": ", std::strerror(errno),
                     "); ranks that share a host must run as one user, in one process namespace"));
  }
  if (about.st_ino != inode || static_cast<uint64_t>(about.st_size) != bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not the memory that was offered: is its process gone?"));
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.fd_, 0);
  if (data == MAP_FAILED) return absl::ResourceExhaustedError(absl::StrCat("mmap: ", std::strerror(errno)));
  made.data_ = static_cast<char*>(data);
  made.bytes_ = bytes;
  return made;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (fd_ >= 0) close(fd_);
}

}  // namespace distill
