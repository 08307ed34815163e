#include "libdistill/store/sha_thread.h"

#include <algorithm>
#include <utility>

#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"

namespace distill {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;
constexpr size_t kMostBlocks = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<ShaThread>> ShaThread::Start(ShaKind kind) {
  std::unique_ptr<ShaThread> hash(new ShaThread(kind));
  DISTILL_ASSIGN_OR_RETURN(hash->thread_, StartThread("hashing a download", [raw = hash.get()] { raw->Work(); }));
  return hash;
}

ShaThread::~ShaThread() { End(); }

void ShaThread::Add(absl::string_view bytes) {
  while (!bytes.empty()) {
    if (open_.capacity() < kBlockBytes) open_.reserve(kBlockBytes);
    const size_t taken = std::min(bytes.size(), kBlockBytes - open_.size());
    open_.append(bytes.data(), taken);
    bytes.remove_prefix(taken);
    if (open_.size() == kBlockBytes) HandOver();
  }
}

void ShaThread::HandOver() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return full_.size() < kMostBlocks; });
  full_.push_back(std::exchange(open_, {}));
  if (!spare_.empty()) {
    open_ = std::move(spare_.back());
    spare_.pop_back();
  }
  changed_.notify_all();
}

void ShaThread::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !full_.empty() || has_ended_; });
    if (full_.empty()) return;
    std::string block = std::move(full_.front());
    full_.pop_front();
    changed_.notify_all();
    lock.unlock();
    hash_.Add(block);
    block.clear();
    lock.lock();
    spare_.push_back(std::move(block));
  }
}

void ShaThread::End() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::string ShaThread::Hex() {
  if (!open_.empty()) HandOver();
  End();
  return hash_.Hex();
}

}  // namespace distill
