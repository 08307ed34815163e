#include "libdistill/store/file_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/store/block_cache.h"
#include "libdistill/store/files.h"
#include "libdistill/store/in_parallel.h"
#include "libdistill/store/store.h"

namespace distill {
namespace {

constexpr int64_t kPointerBytes = 64;              // enough to know a pointer of Git LFS
constexpr int64_t kSmallBytes = int64_t{4} << 20;  // of a part that is fetched with its neighbours

// As ReadAt, of a large part of a file behind a network: by ranges, several of them on their way at a time.
absl::Status ReadInRanges(const ReadableFile& file, int64_t offset, absl::Span<char> out) {
  const StoreOptions options = CurrentStoreOptions();
  const auto range = static_cast<size_t>(options.range_mib << 20);
  const size_t ranges = (out.size() + range - 1) / range;
  return InParallel(ranges, static_cast<size_t>(options.read_ahead), [&](size_t i) {
    return file.ReadAt(offset + static_cast<int64_t>(i * range), out.subspan(i * range, range));
  });
}

}  // namespace

class FileBytes::Mapping {
 public:
  static absl::StatusOr<std::shared_ptr<const Mapping>> Of(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      return errno == ENOENT ? absl::NotFoundError(absl::StrCat(path, ": no such file"))
                             : absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot open"));
    }
    struct stat info = {};
    void* data = MAP_FAILED;
    int error = 0;
    if (fstat(fd, &info) != 0) {
      error = errno;
    } else if (S_ISDIR(info.st_mode)) {
      error = EISDIR;
    } else if (info.st_size > 0) {
      data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (data == MAP_FAILED) error = errno;
    }
    close(fd);
    if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot map"));
    if (info.st_size == 0) return std::make_shared<const Mapping>(absl::string_view());
    return std::make_shared<const Mapping>(
        absl::string_view(static_cast<const char*>(data), static_cast<size_t>(info.st_size)));
  }

  explicit Mapping(absl::string_view bytes) : bytes(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (!bytes.empty()) munmap(const_cast<char*>(bytes.data()), bytes.size());
  }

  const absl::string_view bytes;
};

absl::StatusOr<std::shared_ptr<char>> AllocateBytes(int64_t size) {
  char* const bytes = new (std::nothrow) char[static_cast<size_t>(std::max<int64_t>(size, 1))];
  if (bytes == nullptr) return absl::ResourceExhaustedError(absl::StrCat("no memory for ", size, " bytes"));
  return std::shared_ptr<char>(bytes, std::default_delete<char[]>());
}

FileBytes::FileBytes(std::string path, int64_t size) : path_(std::move(path)), size_(size) {}

FileBytes::~FileBytes() = default;

absl::StatusOr<std::shared_ptr<const FileBytes>> FileBytes::Checked(std::shared_ptr<const FileBytes> file) {
  DISTILL_ASSIGN_OR_RETURN(const FileSlice start, file->Read(0, std::min(file->size(), kPointerBytes)));
  DISTILL_RETURN_IF_ERROR(CheckIsNoPointer(file->path(), start.bytes));
  return file;
}

absl::StatusOr<std::shared_ptr<const FileBytes>> FileBytes::Open(const std::string& path) {
  if (IsRemote(path)) {
    DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const ReadableFile> file, OpenFile(path));
    std::shared_ptr<FileBytes> bytes(new FileBytes(path, file->size()));
    // Weights of small models come one by one, and a request takes longer than its bytes.
    const auto cache = std::make_shared<BlockCache>(BlockCacheOptions{.block_bytes = kSmallBytes, .blocks = 4});
    bytes->small_ = cache->Wrap(file);
    bytes->file_ = std::move(file);
    return Checked(std::move(bytes));
  }
  DISTILL_ASSIGN_OR_RETURN(std::shared_ptr<const Mapping> mapping, Mapping::Of(path));
  std::shared_ptr<FileBytes> bytes(new FileBytes(path, static_cast<int64_t>(mapping->bytes.size())));
  bytes->mapping_ = std::move(mapping);
  return Checked(std::move(bytes));
}

absl::StatusOr<std::shared_ptr<const FileBytes>> FileBytes::Of(std::shared_ptr<const ReadableFile> file) {
  std::shared_ptr<FileBytes> bytes(new FileBytes(file->path(), file->size()));
  bytes->file_ = std::move(file);
  bytes->small_ = bytes->file_;
  return Checked(std::move(bytes));
}

absl::StatusOr<FileSlice> FileBytes::Read(int64_t offset, int64_t size) const {
  if (offset < 0 || size < 0 || offset > size_ || size > size_ - offset) {
    return absl::OutOfRangeError(
        absl::StrCat(path_, ": bytes ", offset, " to ", offset, " + ", size, " of a file of ", size_));
  }
  if (mapping_ != nullptr) {
    return FileSlice{mapping_->bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(size)), mapping_};
  }
  absl::StatusOr<std::shared_ptr<char>> memory = AllocateBytes(size);
  if (!memory.ok()) return Annotate(memory.status(), path_);
  const auto count = static_cast<size_t>(size);
  const absl::Span<char> out = absl::MakeSpan(memory->get(), count);
  DISTILL_RETURN_IF_ERROR(size <= kSmallBytes || !IsRemote(path_) ? small_->ReadAt(offset, out)
                                                                  : ReadInRanges(*file_, offset, out));
  return FileSlice{absl::string_view(memory->get(), count), *memory};
}

void FileBytes::Forget(int64_t offset, int64_t size) const {
  if (mapping_ == nullptr || offset < 0 || size < 0 || offset > size_ || size > size_ - offset) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(mapping_->bytes.data()) + static_cast<uintptr_t>(offset);
  const uintptr_t first = (begin + page - 1) / page * page, last = (begin + static_cast<uintptr_t>(size)) / page * page;
  // What cannot be let go of stays until the file is closed.
  if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace distill
