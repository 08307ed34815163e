#include "libdistill/store/growing_file_hash.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/store/file_error.h"

namespace distill {
namespace {

constexpr int64_t kBufferBytes = int64_t{256} << 10;  // stays in a core's own cache
constexpr int64_t kPartBytes = int64_t{4} << 20;      // for which the thread is woken

}  // namespace

absl::StatusOr<std::unique_ptr<GrowingFileHash>> GrowingFileHash::Start(ShaKind kind, absl::string_view prefix, int fd,
                                                                        std::string path) {
  std::unique_ptr<GrowingFileHash> hash(new GrowingFileHash(kind, fd, std::move(path)));
  hash->hash_.Add(prefix);
  DISTILL_ASSIGN_OR_RETURN(hash->thread_, StartThread("hashing a download", [raw = hash.get()] { raw->Work(); }));
  return hash;
}

GrowingFileHash::~GrowingFileHash() { End(/*drops_the_rest=*/true); }

void GrowingFileHash::GrownTo(int64_t size) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool is_part = size / kPartBytes > size_ / kPartBytes;
  size_ = size;
  if (is_part) changed_.notify_one();
}

void GrowingFileHash::Work() {
  buffer_.resize(kBufferBytes);
  int64_t hashed = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  while (status_.ok()) {
    changed_.wait(lock, [&] { return size_ - hashed >= kPartBytes || has_ended_; });
    if (drops_the_rest_ || size_ == hashed) return;
    const int64_t end = std::min(size_, hashed + kPartBytes);
    lock.unlock();
    status_ = AddPart(hashed, end);
    hashed = end;
    lock.lock();
  }
}

absl::Status GrowingFileHash::AddPart(int64_t begin, int64_t end) {
#if defined(SYNC_FILE_RANGE_WRITE)
  sync_file_range(fd_, begin, end - begin, SYNC_FILE_RANGE_WRITE);  // what cannot be written is known to fsync
#endif
  while (begin < end) {
    const auto wanted = static_cast<size_t>(std::min(end - begin, kBufferBytes));
    const ssize_t count = pread(fd_, buffer_.data(), wanted, begin);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return FileError("read", path_, count < 0 ? errno : EIO);
    hash_.Add(absl::string_view(buffer_.data(), static_cast<size_t>(count)));
    begin += count;
  }
  return absl::OkStatus();
}

void GrowingFileHash::End(bool drops_the_rest) {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    has_ended_ = true;
    drops_the_rest_ = drops_the_rest;
    changed_.notify_one();
  }
  thread_.join();
}

absl::StatusOr<std::string> GrowingFileHash::Hex() {
  End(/*drops_the_rest=*/false);
  DISTILL_RETURN_IF_ERROR(status_);
  return hash_.Hex();
}

}  // namespace distill
