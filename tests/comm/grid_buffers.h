// What the grids of tests are made of: small whole numbers in every type, and buffers between guards.
#pragma once

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "libdistill/comm/communicator.h"
#include "tests/comm/collectives_grid.h"

namespace distill::testing {

// The number in the type's bits, written independently of the library's conversions.
void Store(char* out, int value, DType dtype);

// The result of the operation over every rank's value.
int Combine(ReduceOp op, int ranks, absl::FunctionRef<int(int rank)> value);

// Where buffers are taken from; each case begins anew.
class Arena {
 public:
  static absl::StatusOr<Arena> Create(Communicator& comm, BufferKind kind, int64_t bytes) {
    Arena arena;
    if (kind == BufferKind::kPlain) return arena;
    constexpr int64_t kShift = 24;  // aligned for every type, and no more
    absl::StatusOr<std::unique_ptr<CommMemory>> memory = comm.Allocate(bytes + kShift * comm.world_size());
    if (!memory.ok()) return memory.status();
    arena.memory_ = *std::move(memory);
    if (kind == BufferKind::kMixed && comm.rank() == 0) arena.memory_.reset();
    if (kind == BufferKind::kShifted) arena.begin_ = kShift * comm.rank();
    arena.Reset();
    return arena;
  }
  char* Take(size_t bytes) {
    if (memory_ == nullptr) return plain_.emplace_back(bytes).data();
    char* taken = memory_->data() + used_;
    used_ += static_cast<int64_t>(bytes);
    return used_ <= memory_->bytes() ? taken : nullptr;
  }
  void Reset() {
    used_ = begin_;
    plain_.clear();
  }

 private:
  std::unique_ptr<CommMemory> memory_;
  std::list<std::vector<char>> plain_;
  int64_t begin_ = 0;
  int64_t used_ = 0;
};

// A buffer between two guards, `shift` elements off its natural place.
class Buffer {
 public:
  Buffer(Arena& arena, int64_t count, DType dtype, int shift)
      : dtype_(dtype),
        bytes_(static_cast<size_t>(count * SizeOf(dtype))),
        offset_(kGuard + static_cast<size_t>(shift * SizeOf(dtype))),
        storage_(arena.Take((offset_ + bytes_ + kGuard + 7) / 8 * 8)) {
    std::memset(storage_, kGuardByte, offset_ + bytes_ + kGuard);
  }
  char* at(int64_t i) { return storage_ + offset_ + i * SizeOf(dtype_); }
  // `count` elements from `begin` on: value(0), value(1), ..., which begins anew after `period` of them.
  void Fill(int64_t begin, int64_t count, int64_t period, absl::FunctionRef<int(int64_t)> value);
  // The first of `count` elements from `begin` on that is not as Fill would make it; -1: none.
  int64_t FindWrong(int64_t begin, int64_t count, int64_t period, absl::FunctionRef<int(int64_t)> value);
  bool GuardsStand() const {
    return std::all_of(storage_, storage_ + offset_, IsGuard) &&
           std::all_of(storage_ + offset_ + bytes_, storage_ + offset_ + bytes_ + kGuard, IsGuard);
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr char kGuardByte = 0x5a;
  static bool IsGuard(char byte) { return byte == kGuardByte; }
  DType dtype_;
  size_t bytes_;
  size_t offset_;
  char* storage_;
};

// Internal with the first element that is not the expected one (see Buffer::Fill), or when the guards were written to.
absl::Status Verify(Buffer& result, int64_t begin, int64_t count, int64_t period, const std::string& text,
                    absl::FunctionRef<int(int64_t)> expected);

}  // namespace distill::testing
