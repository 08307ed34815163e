// What LibTorch's allocator is asked for on the CPU, to compare with what a plan counts.
//
//   const auto tensors = std::make_shared<Tensors>();
//   const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, tensors);
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "tests/support/catch.h"

namespace distill {

// Bytes that tensors on the CPU have, from its making on.
class Tensors : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* data, int64_t bytes, size_t, size_t, c10::Device) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (bytes > 0) {
      sizes_[data] = bytes;
      now_ += bytes;
      most_ = std::max(most_, now_);
    } else if (const auto found = sizes_.find(data); found != sizes_.end()) {
      now_ -= found->second;
      sizes_.erase(found);
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t now() const { return now_; }
  int64_t most() const { return most_; }
  void StartAnew() { most_ = now_; }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, int64_t> sizes_;
  int64_t now_ = 0, most_ = 0;
};

inline void CheckNear(const char* what, int64_t planned, int64_t measured, double tolerance) {
  INFO(what << ": planned " << planned << ", measured " << measured);
  CHECK(static_cast<double>(planned) >= (1 - tolerance) * static_cast<double>(measured));
  CHECK(static_cast<double>(planned) <= (1 + tolerance) * static_cast<double>(measured));
}

}  // namespace distill
