// A hash of bytes that are still coming: a thread of its own computes it, so that whoever receives them need not wait.
//
//   DISTILL_ASSIGN_OR_RETURN(const std::unique_ptr<ShaThread> hash, ShaThread::Start(ShaKind::kSha256));
//   hash->Add(bytes);
//   if (hash->Hex() != expected) ...
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/store/sha_hash.h"

namespace distill {

class ShaThread {
 public:
  // ResourceExhausted: no thread is to be had.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ShaThread>> Start(ShaKind kind);
  ~ShaThread();
  ShaThread(const ShaThread&) = delete;
  ShaThread& operator=(const ShaThread&) = delete;

  // Copies them. Blocks while the thread is more than a few MiB behind. One thread at a time.
  void Add(absl::string_view bytes);
  // Of all that was added; once, at the end. Blocks until all is counted.
  std::string Hex();

 private:
  explicit ShaThread(ShaKind kind) : hash_(kind) {}
  void Work();
  void HandOver();
  void End();

  ShaHash hash_;
  std::string open_;  // being filled
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> full_;
  std::vector<std::string> spare_;
  bool has_ended_ = false;
  std::thread thread_;
};

}  // namespace distill
