// What the communicators that one of a job is made of share: its rendezvous, the call that the job is in, and the error
// that has ended it. Internal to comm/.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "libdistill/world/rendezvous.h"

namespace distill {

class JobCalls {
 public:
  explicit JobCalls(std::shared_ptr<Rendezvous> rendezvous) : rendezvous_(std::move(rendezvous)) {}
  Rendezvous& rendezvous() const { return *rendezvous_; }

  // The collective call that the job is in; the start is number 1.
  void Next() { call_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t call() const { return call_.load(std::memory_order_relaxed); }

  // Ends this rank's waits in all parts, with this error unless the rendezvous knows better. Any thread; never blocks.
  void End(const absl::Status& error);
  bool ended() const { return ended_.load(std::memory_order_acquire) || rendezvous_->failed(); }
  [[nodiscard]] absl::Status Check(absl::Status news) const;

 private:
  const std::shared_ptr<Rendezvous> rendezvous_;
  std::atomic<uint64_t> call_{1};
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;
  absl::Status error_;
};

}  // namespace distill
