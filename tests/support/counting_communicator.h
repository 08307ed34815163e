// A communicator over another one that counts what its calls carry, and those of what is split from it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "libdistill/comm/backend.h"
#include "libdistill/core/status_macros.h"

namespace distill::testing {

// Bytes by operation, of the longer one of a call's buffers; calls that only agree on something are counted apart.
class Traffic {
 public:
  static constexpr int64_t kSmall = 512;  // bytes that a call of those has at most

  void Add(CommOperation operation, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes > kSmall ? bytes_[operation] += bytes : small_bytes_ += bytes;
  }
  std::map<CommOperation, int64_t> bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }
  int64_t small_bytes() const {
    const std::lock_guard lock(mutex_);
    return small_bytes_;
  }

 private:
  mutable std::mutex mutex_;  // calls come from several threads
  std::map<CommOperation, int64_t> bytes_;
  int64_t small_bytes_ = 0;
};

class CountingCommunicator : public CommBackend {
 public:
  // `counted` is one that CreateCommunicator made.
  CountingCommunicator(std::unique_ptr<Communicator> counted, std::shared_ptr<Traffic> traffic)
      : CommBackend(counted->rank(), counted->world_size()),
        counted_(std::move(counted)),
        traffic_(std::move(traffic)) {}
  absl::string_view backend() const override { return counted_->backend(); }

 protected:
  absl::Status Execute(const CommCall& call) override {
    traffic_->Add(call.operation, call.blocks(world_size()) * call.bytes());
    return dynamic_cast<CommBackend&>(*counted_).Run(call);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override {
    DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> split, counted_->Split(part.color, part.key));
    if (split == nullptr) return nullptr;
    return std::make_unique<CountingCommunicator>(std::move(split), traffic_);
  }
  absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes, Placement placement) override {
    return counted_->Allocate(bytes, placement);
  }

 private:
  const std::unique_ptr<Communicator> counted_;
  const std::shared_ptr<Traffic> traffic_;
};

}  // namespace distill::testing
