// The hash of a file that still grows: a thread of its own reads what came, while it is in the system's cache, and has
// the disk begin with it. So whoever receives the bytes waits for neither.
//
//   DISTILL_ASSIGN_OR_RETURN(const auto hash, GrowingFileHash::Start(ShaKind::kSha256, "", fd, path));
//   hash->GrownTo(size);
//   DISTILL_ASSIGN_OR_RETURN(const std::string hex, hash->Hex());
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/sha_hash.h"

namespace distill {

class GrowingFileHash {
 public:
  // Of `prefix` and then of the file, from its first byte. `fd` can be read, and stays open as long as this is there;
  // `path` is for errors. ResourceExhausted: no thread is to be had.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<GrowingFileHash>> Start(ShaKind kind, absl::string_view prefix,
                                                                              int fd, std::string path);
  ~GrowingFileHash();
  GrowingFileHash(const GrowingFileHash&) = delete;
  GrowingFileHash& operator=(const GrowingFileHash&) = delete;

  // The first `size` bytes are there, and change no more. Does not block.
  void GrownTo(int64_t size);
  // Of all that was there; once, at the end. Blocks until all is read. Internal: it cannot be read back.
  [[nodiscard]] absl::StatusOr<std::string> Hex();

 private:
  GrowingFileHash(ShaKind kind, int fd, std::string path) : hash_(kind), fd_(fd), path_(std::move(path)) {}
  void Work();
  absl::Status AddPart(int64_t begin, int64_t end);
  void End(bool drops_the_rest);

  ShaHash hash_;
  const int fd_;
  const std::string path_;
  std::string buffer_;
  absl::Status status_;  // of the reading

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t size_ = 0;
  bool has_ended_ = false;
  bool drops_the_rest_ = false;
  std::thread thread_;
};

}  // namespace distill
