#include "libdistill/comm/call_board.h"

#include <algorithm>

namespace distill {

void CallBoard::Add(const CommCall& call) {
  Entry& entry = entries_[static_cast<size_t>(call.number) % kKept];
  const uint64_t version = entry.version.load(std::memory_order_relaxed);
  entry.version.store(version + 1, std::memory_order_relaxed);
  entry.operation.store(call.operation, std::memory_order_release);
  entry.number.store(call.number, std::memory_order_release);
  entry.count.store(call.count, std::memory_order_release);
  entry.dtype.store(call.dtype, std::memory_order_release);
  entry.op.store(call.op, std::memory_order_release);
  entry.root.store(call.root, std::memory_order_release);
  entry.version.store(version + 2, std::memory_order_release);
}

std::vector<CommCall> CallBoard::Read() const {
  std::vector<CommCall> calls;
  for (const Entry& entry : entries_) {
    const uint64_t version = entry.version.load(std::memory_order_acquire);
    CommCall call;
    call.operation = entry.operation.load(std::memory_order_acquire);
    call.number = entry.number.load(std::memory_order_acquire);
    call.count = entry.count.load(std::memory_order_acquire);
    call.dtype = entry.dtype.load(std::memory_order_acquire);
    call.op = entry.op.load(std::memory_order_acquire);
    call.root = entry.root.load(std::memory_order_acquire);
    const bool whole = version % 2 == 0 && entry.version.load(std::memory_order_relaxed) == version;
    if (whole && call.number > 0) calls.push_back(call);
  }
  std::sort(calls.begin(), calls.end(), [](const CommCall& a, const CommCall& b) { return a.number < b.number; });
  return calls;
}

}  // namespace distill
