#include "tests/comm/collectives_grid.h"

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>

#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"

namespace distill::testing {
namespace {

constexpr size_t kGuard = 64;
constexpr char kGuardByte = 0x5a;

// Small whole numbers in each type's bits, written independently of the library's conversions.
void Store(char* out, int value, DType dtype) {
  const auto put = [out](auto x) { std::memcpy(out, &x, sizeof(x)); };
  switch (dtype) {
    case DType::kFloat32:
      return put(static_cast<float>(value));
    case DType::kFloat64:
      return put(static_cast<double>(value));
    case DType::kInt32:
      return put(static_cast<int32_t>(value));
    case DType::kInt64:
      return put(static_cast<int64_t>(value));
    case DType::kUInt8:
      return put(static_cast<uint8_t>(value));
    case DType::kBFloat16: {
      const float wide = static_cast<float>(value);
      uint32_t bits;
      std::memcpy(&bits, &wide, sizeof(bits));
      return put(static_cast<uint16_t>(bits >> 16));
    }
    case DType::kFloat16: {
      int exponent = 0;
      while (value >> (exponent + 1)) ++exponent;
      const int bits = value == 0 ? 0 : ((exponent + 15) << 10) | ((value << (10 - exponent)) & 0x3ff);
      return put(static_cast<uint16_t>(bits));
    }
  }
}

// What rank r holds at element i. Sums divide by the number of ranks, so that averages are exact as well; products
// stay small enough for every type.
int Input(ReduceOp op, int rank, int ranks, int64_t i) {
  if (op == ReduceOp::kProduct) return (i + rank) % 3 == 0 ? 2 : 1;
  return static_cast<int>(i * 7 % 5) + (i % ranks == rank ? ranks : 0);
}

int Expected(ReduceOp op, int ranks, int64_t i) {
  int result = Input(op, 0, ranks, i);
  for (int r = 1; r < ranks; ++r) {
    const int next = Input(op, r, ranks, i);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        result += next;
        break;
      case ReduceOp::kMin:
        result = std::min(result, next);
        break;
      case ReduceOp::kMax:
        result = std::max(result, next);
        break;
      case ReduceOp::kProduct:
        result *= next;
        break;
    }
  }
  return op == ReduceOp::kAverage ? result / ranks : result;
}

// Where buffers are taken from; each case begins anew.
class Arena {
 public:
  static absl::StatusOr<Arena> Create(Communicator& comm, BufferKind kind, int64_t bytes) {
    Arena arena;
    if (kind == BufferKind::kPlain) return arena;
    DISTILL_ASSIGN_OR_RETURN(arena.memory_, comm.Allocate(bytes));
    if (kind == BufferKind::kMixed && comm.rank() == 0) arena.memory_.reset();
    return arena;
  }
  char* Take(size_t bytes) {
    if (memory_ == nullptr) return plain_.emplace_back(bytes).data();
    char* taken = memory_->data() + used_;
    used_ += static_cast<int64_t>(bytes);
    return used_ <= memory_->bytes() ? taken : nullptr;
  }
  void Reset() {
    used_ = 0;
    plain_.clear();
  }

 private:
  std::unique_ptr<CommMemory> memory_;
  std::list<std::vector<char>> plain_;
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
  void Set(int64_t i, int value) { Store(at(i), value, dtype_); }
  bool Is(int64_t i, int value) {
    char expected[8];
    Store(expected, value, dtype_);
    return std::memcmp(at(i), expected, static_cast<size_t>(SizeOf(dtype_))) == 0;
  }
  bool GuardsStand() const {
    return std::all_of(storage_, storage_ + offset_, IsGuard) &&
           std::all_of(storage_ + offset_ + bytes_, storage_ + offset_ + bytes_ + kGuard, IsGuard);
  }

 private:
  static bool IsGuard(char byte) { return byte == kGuardByte; }
  DType dtype_;
  size_t bytes_;
  size_t offset_;
  char* storage_;
};

struct Case {
  int64_t count;
  DType dtype;
  ReduceOp op;
  bool in_place;
  std::string Text(const char* operation) const {
    return absl::StrCat(operation, " of ", count, " ", NameOf(dtype), ", ", NameOf(op), in_place ? ", in place" : "");
  }
};

absl::Status Verify(Buffer& result, int64_t count, const std::string& text, absl::FunctionRef<int(int64_t)> expected) {
  for (int64_t i = 0; i < count; ++i) {
    if (!result.Is(i, expected(i))) {
      return absl::InternalError(absl::StrCat(text, ": element ", i, " is not ", expected(i)));
    }
  }
  if (!result.GuardsStand()) return absl::InternalError(absl::StrCat(text, ": wrote outside its buffer"));
  return absl::OkStatus();
}

absl::Status AllReduce(Communicator& comm, Arena& arena, const Case& c) {
  arena.Reset();
  const int n = comm.world_size();
  Buffer send(arena, c.count, c.dtype, 1);
  Buffer receive(arena, c.count, c.dtype, 3);
  Buffer& result = c.in_place ? send : receive;
  for (int64_t i = 0; i < c.count; ++i) send.Set(i, Input(c.op, comm.rank(), n, i));
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(send.at(0), result.at(0), c.count, c.dtype, c.op));
  return Verify(result, c.count, c.Text("all-reduce"), [&](int64_t i) { return Expected(c.op, n, i); });
}

absl::Status ReduceScatter(Communicator& comm, Arena& arena, const Case& c) {
  arena.Reset();
  const int n = comm.world_size();
  const int64_t begin = comm.rank() * c.count;
  Buffer send(arena, n * c.count, c.dtype, 1);
  Buffer receive(arena, c.count, c.dtype, 3);
  for (int64_t i = 0; i < n * c.count; ++i) send.Set(i, Input(c.op, comm.rank(), n, i));
  char* out = c.in_place ? send.at(begin) : receive.at(0);
  DISTILL_RETURN_IF_ERROR(comm.ReduceScatter(send.at(0), out, c.count, c.dtype, c.op));
  if (c.in_place && c.count > 0) std::memcpy(receive.at(0), out, static_cast<size_t>(c.count * SizeOf(c.dtype)));
  return Verify(receive, c.count, c.Text("reduce-scatter"), [&](int64_t i) { return Expected(c.op, n, begin + i); });
}

absl::Status AllGather(Communicator& comm, Arena& arena, const Case& c) {
  arena.Reset();
  const int n = comm.world_size();
  const int64_t begin = comm.rank() * c.count;
  Buffer send(arena, c.count, c.dtype, 1);
  Buffer receive(arena, n * c.count, c.dtype, 3);
  const auto value = [](int64_t i) { return static_cast<int>(i * 11 % 101); };
  for (int64_t i = 0; i < c.count; ++i) {
    send.Set(i, value(begin + i));
    if (c.in_place) receive.Set(begin + i, value(begin + i));
  }
  const char* in = c.in_place ? receive.at(begin) : send.at(0);
  DISTILL_RETURN_IF_ERROR(comm.AllGather(in, receive.at(0), c.count, c.dtype));
  return Verify(receive, n * c.count, c.Text("all-gather"), value);
}

absl::Status Broadcast(Communicator& comm, Arena& arena, const Case& c, int root) {
  arena.Reset();
  Buffer buffer(arena, c.count, c.dtype, 1);
  const auto value = [root](int64_t i) { return static_cast<int>((i * 13 + root) % 97); };
  for (int64_t i = 0; i < c.count; ++i) buffer.Set(i, comm.rank() == root ? value(i) : 0);
  DISTILL_RETURN_IF_ERROR(comm.Broadcast(buffer.at(0), c.count, c.dtype, root));
  return Verify(buffer, c.count, c.Text("broadcast"), value);
}

// For the two buffers of a case whose blocks have `bytes` bytes.
int64_t ArenaBytes(const Communicator& comm, int64_t bytes) {
  return (comm.world_size() + 1) * (bytes + 4096) + 2 * bytes;
}

}  // namespace

absl::Status CheckCollectives(Communicator& comm, const GridOptions& options) {
  const int64_t longest = *std::max_element(options.counts.begin(), options.counts.end());
  DISTILL_ASSIGN_OR_RETURN(Arena arena, Arena::Create(comm, options.buffers, ArenaBytes(comm, longest * 8)));
  for (const DType dtype : options.dtypes) {
    for (const int64_t count : options.counts) {
      for (const bool in_place : {false, true}) {
        for (const ReduceOp op : options.ops) {
          DISTILL_RETURN_IF_ERROR(AllReduce(comm, arena, {count, dtype, op, in_place}));
          DISTILL_RETURN_IF_ERROR(ReduceScatter(comm, arena, {count, dtype, op, in_place}));
        }
        DISTILL_RETURN_IF_ERROR(AllGather(comm, arena, {count, dtype, ReduceOp::kSum, in_place}));
      }
      for (int root = 0; root < comm.world_size(); ++root) {
        DISTILL_RETURN_IF_ERROR(Broadcast(comm, arena, {count, dtype, ReduceOp::kSum, true}, root));
      }
    }
    DISTILL_RETURN_IF_ERROR(comm.Barrier());
  }
  return absl::OkStatus();
}

absl::Status CheckLargeCollectives(Communicator& comm, int64_t bytes, BufferKind buffers) {
  DISTILL_ASSIGN_OR_RETURN(Arena arena, Arena::Create(comm, buffers, ArenaBytes(comm, bytes / comm.world_size() + 64)));
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Case c = {bytes / SizeOf(dtype) + 7, dtype, ReduceOp::kAverage, dtype == DType::kFloat32};
    const Case part = {c.count / comm.world_size(), dtype, ReduceOp::kSum, !c.in_place};
    DISTILL_RETURN_IF_ERROR(AllReduce(comm, arena, c));
    DISTILL_RETURN_IF_ERROR(ReduceScatter(comm, arena, part));
    DISTILL_RETURN_IF_ERROR(AllGather(comm, arena, part));
    DISTILL_RETURN_IF_ERROR(Broadcast(comm, arena, c, comm.world_size() - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckSameBits(Communicator& comm) {
  constexpr int64_t kCount = 200'003;
  Random random(7, static_cast<uint64_t>(comm.rank()));
  std::vector<float> send(kCount);
  for (float& x : send) x = static_cast<float>(random.Uniform() - 0.5);
  std::vector<float> first(kCount);
  std::vector<float> again(kCount);
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(send.data(), first.data(), kCount, DType::kFloat32, ReduceOp::kSum));
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(send.data(), again.data(), kCount, DType::kFloat32, ReduceOp::kSum));
  const size_t bytes = kCount * sizeof(float);
  if (std::memcmp(first.data(), again.data(), bytes) != 0) return absl::InternalError("the same call, other bits");
  std::vector<float> all(static_cast<size_t>(comm.world_size()) * kCount);
  DISTILL_RETURN_IF_ERROR(comm.AllGather(first.data(), all.data(), kCount, DType::kFloat32));
  for (int r = 0; r < comm.world_size(); ++r) {
    if (std::memcmp(first.data(), all.data() + r * kCount, bytes) != 0) {
      return absl::InternalError(absl::StrCat("rank ", r, " ended with other bits"));
    }
  }
  return absl::OkStatus();
}

}  // namespace distill::testing
