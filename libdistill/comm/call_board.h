// The last collective calls of a rank, kept by the thread that makes them and read by another at any time: a rank that
// waits longer than it should compares them with those of the others. Internal to comm/.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "libdistill/comm/call.h"

namespace distill {

class CallBoard {
 public:
  // One thread; costs a few plain stores.
  void Add(const CommCall& call);
  // Any thread: the last calls, the oldest first, without their buffers; one that is being written is left out.
  std::vector<CommCall> Read() const;

 private:
  // As many as a rank may be ahead of one that waits in another call.
  static constexpr size_t kKept = 4;
  // Odd versions are being written. Whoever reads a word of a newer call also sees its version.
  struct Entry {
    std::atomic<uint64_t> version{0};
    std::atomic<CommOperation> operation{};
    std::atomic<int64_t> number{0};  // 0: of no call
    std::atomic<int64_t> count{0};
    std::atomic<DType> dtype{};
    std::atomic<ReduceOp> op{};
    std::atomic<int> root{0};
  };
  std::array<Entry, kKept> entries_;
};

}  // namespace distill
