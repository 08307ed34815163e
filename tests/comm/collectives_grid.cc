#include "tests/comm/collectives_grid.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/efa_like_ranks.h"
#include "tests/comm/grid_buffers.h"
#include "tests/comm/integer_average.h"

namespace distill::testing {
namespace {

// What rank r holds at element i, which begins anew after Period(ranks) elements. Sums divide by the number of ranks,
// so that averages are exact as well; products stay small enough for every type.
int Input(ReduceOp op, int rank, int ranks, int64_t i) {
  if (op == ReduceOp::kProduct) return (i + rank) % 3 == 0 ? 2 : 1;
  return static_cast<int>(i * 7 % 5) + (i % ranks == rank ? ranks : 0);
}

int64_t Period(int ranks) { return 15 * ranks; }

int Expected(ReduceOp op, int ranks, int64_t i) {
  return Combine(op, ranks, [&](int r) { return Input(op, r, ranks, i); });
}

struct Case {
  int64_t count;
  DType dtype;
  ReduceOp op;
  bool in_place;
  std::string Text(const char* operation) const {
    return absl::StrCat(operation, " of ", count, " ", NameOf(dtype), ", ", NameOf(op), in_place ? ", in place" : "");
  }
};

absl::Status AllReduce(Communicator& comm, Arena& arena, const Case& c) {
  arena.Reset();
  const int n = comm.world_size();
  Buffer send(arena, c.count, c.dtype, 1);
  Buffer receive(arena, c.count, c.dtype, 3);
  Buffer& result = c.in_place ? send : receive;
  send.Fill(0, c.count, Period(n), [&](int64_t i) { return Input(c.op, comm.rank(), n, i); });
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(send.at(0), result.at(0), c.count, c.dtype, c.op));
  return Verify(result, 0, c.count, Period(n), c.Text("all-reduce"), [&](int64_t i) { return Expected(c.op, n, i); });
}

absl::Status ReduceScatter(Communicator& comm, Arena& arena, const Case& c) {
  arena.Reset();
  const int n = comm.world_size();
  const int64_t begin = comm.rank() * c.count;
  Buffer send(arena, n * c.count, c.dtype, 1);
  Buffer receive(arena, c.count, c.dtype, 3);
  send.Fill(0, n * c.count, Period(n), [&](int64_t i) { return Input(c.op, comm.rank(), n, i); });
  char* out = c.in_place ? send.at(begin) : receive.at(0);
  DISTILL_RETURN_IF_ERROR(comm.ReduceScatter(send.at(0), out, c.count, c.dtype, c.op));
  if (c.in_place && c.count > 0) std::memcpy(receive.at(0), out, static_cast<size_t>(c.count * SizeOf(c.dtype)));
  return Verify(receive, 0, c.count, Period(n), c.Text("reduce-scatter"),
                [&](int64_t i) { return Expected(c.op, n, begin + i); });
}

absl::Status AllGather(Communicator& comm, Arena& arena, const Case& c) {
  arena.Reset();
  const int n = comm.world_size();
  const int64_t begin = comm.rank() * c.count;
  Buffer send(arena, c.count, c.dtype, 1);
  Buffer receive(arena, n * c.count, c.dtype, 3);
  const auto value = [](int64_t i) { return static_cast<int>(i * 11 % 101); };
  Buffer& mine = c.in_place ? receive : send;
  mine.Fill(c.in_place ? begin : 0, c.count, 101, [&](int64_t i) { return value(begin + i); });
  const char* in = c.in_place ? receive.at(begin) : send.at(0);
  DISTILL_RETURN_IF_ERROR(comm.AllGather(in, receive.at(0), c.count, c.dtype));
  return Verify(receive, 0, n * c.count, 101, c.Text("all-gather"), value);
}

absl::Status Broadcast(Communicator& comm, Arena& arena, const Case& c, int root) {
  arena.Reset();
  Buffer buffer(arena, c.count, c.dtype, 1);
  const auto value = [root](int64_t i) { return static_cast<int>((i * 13 + root) % 97); };
  buffer.Fill(0, c.count, 97, [&](int64_t i) { return comm.rank() == root ? value(i) : 0; });
  DISTILL_RETURN_IF_ERROR(comm.Broadcast(buffer.at(0), c.count, c.dtype, root));
  return Verify(buffer, 0, c.count, 97, c.Text("broadcast"), value);
}

absl::Status Reduce(Communicator& comm, Arena& arena, const Case& c, int root) {
  arena.Reset();
  const int n = comm.world_size();
  Buffer send(arena, c.count, c.dtype, 1);
  Buffer receive(arena, c.count, c.dtype, 3);
  Buffer& result = c.in_place ? send : receive;
  send.Fill(0, c.count, Period(n), [&](int64_t i) { return Input(c.op, comm.rank(), n, i); });
  char* out = comm.rank() == root ? result.at(0) : nullptr;
  DISTILL_RETURN_IF_ERROR(comm.Reduce(send.at(0), out, c.count, c.dtype, c.op, root));
  const auto expected = [&](int64_t i) {
    return comm.rank() == root ? Expected(c.op, n, i) : Input(c.op, comm.rank(), n, i);
  };
  return Verify(comm.rank() == root ? result : send, 0, c.count, Period(n), c.Text("reduce"), expected);
}

// Element i of the block that rank `from` has for rank `to`, which begins anew after kMailPeriod elements.
constexpr int64_t kMailPeriod = 101;
int Mail(int from, int to, int64_t i) { return static_cast<int>((i * 11 + from * 17 + to * 5) % 101); }

absl::Status AllToAll(Communicator& comm, Arena& arena, const Case& c) {
  arena.Reset();
  const int n = comm.world_size();
  Buffer send(arena, n * c.count, c.dtype, 1);
  Buffer receive(arena, n * c.count, c.dtype, 3);
  for (int to = 0; to < n; ++to) {
    send.Fill(to * c.count, c.count, kMailPeriod, [&](int64_t i) { return Mail(comm.rank(), to, i); });
  }
  DISTILL_RETURN_IF_ERROR(comm.AllToAll(send.at(0), receive.at(0), c.count, c.dtype));
  for (int from = 0; from < n; ++from) {
    DISTILL_RETURN_IF_ERROR(Verify(receive, from * c.count, c.count, kMailPeriod, c.Text("all-to-all"),
                                   [&](int64_t i) { return Mail(from, comm.rank(), i); }));
  }
  return absl::OkStatus();
}

// Every rank to every other: in round k rank r pairs with k - r, all pairs at once, the lower rank sends first.
absl::Status SendAndReceive(Communicator& comm, Arena& arena, const Case& c) {
  const int n = comm.world_size();
  for (int round = 0; round < n; ++round) {
    arena.Reset();
    const int peer = (round - comm.rank() + n) % n;
    if (peer == comm.rank()) continue;
    Buffer send(arena, c.count, c.dtype, 1);
    Buffer receive(arena, c.count, c.dtype, 3);
    send.Fill(0, c.count, kMailPeriod, [&](int64_t i) { return Mail(comm.rank(), peer, i); });
    if (comm.rank() < peer) DISTILL_RETURN_IF_ERROR(comm.Send(send.at(0), c.count, c.dtype, peer));
    DISTILL_RETURN_IF_ERROR(comm.Receive(receive.at(0), c.count, c.dtype, peer));
    if (comm.rank() > peer) DISTILL_RETURN_IF_ERROR(comm.Send(send.at(0), c.count, c.dtype, peer));
    DISTILL_RETURN_IF_ERROR(Verify(receive, 0, c.count, kMailPeriod, c.Text("receive"),
                                   [&](int64_t i) { return Mail(peer, comm.rank(), i); }));
  }
  return absl::OkStatus();
}

// Random bits, of which every rank knows those of all: sums wrap, and are below zero as often as above.
absl::Status IntegerAverages(Communicator& comm, DType dtype) {
  constexpr int64_t kPerRank = 701;
  const int n = comm.world_size();
  const int64_t size = SizeOf(dtype), count = n * kPerRank;
  std::vector<std::vector<char>> inputs(static_cast<size_t>(n), std::vector<char>(static_cast<size_t>(count * size)));
  for (int r = 0; r < n; ++r) {
    Random random(23, static_cast<uint64_t>(r));
    for (char& byte : inputs[static_cast<size_t>(r)]) byte = static_cast<char>(random.Below(256));
  }
  const std::vector<char>& mine = inputs[static_cast<size_t>(comm.rank())];
  std::vector<char> all(mine.size()), reduced(mine.size()), part(mine.size() / static_cast<size_t>(n));
  DISTILL_RETURN_IF_ERROR(comm.AllReduce(mine.data(), all.data(), count, dtype, ReduceOp::kAverage));
  DISTILL_RETURN_IF_ERROR(comm.ReduceScatter(mine.data(), part.data(), kPerRank, dtype, ReduceOp::kAverage));
  DISTILL_RETURN_IF_ERROR(comm.Reduce(mine.data(), reduced.data(), count, dtype, ReduceOp::kAverage, n - 1));
  for (int64_t i = 0; i < count; ++i) {
    uint64_t sum = 0;
    for (const std::vector<char>& input : inputs) {
      sum += static_cast<uint64_t>(LoadInteger(input.data() + i * size, dtype));
    }
    const int64_t expected = AverageOf(sum, n, dtype);
    const auto is = [&](const std::vector<char>& got, int64_t at) {
      return LoadInteger(got.data() + at * size, dtype) == expected;
    };
    const bool right = is(all, i) && (comm.rank() != n - 1 || is(reduced, i)) &&
                       (i / kPerRank != comm.rank() || is(part, i % kPerRank));
    if (!right) return absl::InternalError(absl::StrCat("average of ", NameOf(dtype), " ", i, " is not ", expected));
  }
  return absl::OkStatus();
}

// Whether this one of so many choices (an operation, a place, a root) is tried with a type and a count, which have the
// number `pair`. Over the fabric like efa, where a call takes long, each pair has the next one; else all.
bool Tries(int64_t pair, int64_t choice, int64_t choices) {
  return EfaLikeRails() == nullptr || choice == pair % choices;
}

// For the two buffers of a case whose blocks have `bytes` bytes.
int64_t ArenaBytes(const Communicator& comm, int64_t bytes) {
  return 2 * comm.world_size() * (bytes + 4096) + 2 * bytes;
}

}  // namespace

absl::Status CheckAllReduces(Communicator& comm, const GridOptions& options) {
  const int64_t longest = *std::max_element(options.counts.begin(), options.counts.end());
  DISTILL_ASSIGN_OR_RETURN(Arena arena, Arena::Create(comm, options.buffers, ArenaBytes(comm, longest * 8)));
  const auto ops = static_cast<int64_t>(options.ops.size());
  int64_t pair = 3 * comm.world_size();  // other choices in other worlds
  for (const DType dtype : options.dtypes) {
    for (const int64_t count : options.counts) {
      for (const bool in_place : {false, true}) {
        for (int64_t op = 0; op < ops; ++op) {
          if (!Tries(pair, (in_place ? ops : 0) + op, 2 * ops)) continue;
          const Case c = {count, dtype, options.ops[static_cast<size_t>(op)], in_place};
          DISTILL_RETURN_IF_ERROR(AllReduce(comm, arena, c));
          DISTILL_RETURN_IF_ERROR(ReduceScatter(comm, arena, c));
        }
        if (!Tries(pair, in_place ? 1 : 0, 2)) continue;
        DISTILL_RETURN_IF_ERROR(AllGather(comm, arena, {count, dtype, ReduceOp::kSum, in_place}));
      }
      ++pair;
    }
  }
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kUInt8}) {
    DISTILL_RETURN_IF_ERROR(IntegerAverages(comm, dtype));
  }
  return absl::OkStatus();
}

absl::Status CheckRooted(Communicator& comm, const GridOptions& options) {
  const int64_t longest = *std::max_element(options.counts.begin(), options.counts.end());
  DISTILL_ASSIGN_OR_RETURN(Arena arena, Arena::Create(comm, options.buffers, ArenaBytes(comm, longest * 8)));
  const auto ops = static_cast<int64_t>(options.ops.size());
  int64_t pair = 0;
  for (const DType dtype : options.dtypes) {
    for (const int64_t count : options.counts) {
      for (int root = 0; root < comm.world_size(); ++root) {
        if (!Tries(pair, root % 3, 3)) continue;
        for (int64_t op = 0; op < ops; ++op) {
          if (!Tries(pair + root, op, ops)) continue;
          const Case c = {count, dtype, options.ops[static_cast<size_t>(op)], root % 2 == 0};
          DISTILL_RETURN_IF_ERROR(Reduce(comm, arena, c, root));
        }
        DISTILL_RETURN_IF_ERROR(Broadcast(comm, arena, {count, dtype, ReduceOp::kSum, true}, root));
      }
      ++pair;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCollectives(Communicator& comm, const GridOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckAllReduces(comm, options));
  DISTILL_RETURN_IF_ERROR(CheckRooted(comm, options));
  const int64_t longest = *std::max_element(options.counts.begin(), options.counts.end());
  DISTILL_ASSIGN_OR_RETURN(Arena arena, Arena::Create(comm, options.buffers, ArenaBytes(comm, longest * 8)));
  for (const DType dtype : options.dtypes) {
    for (const int64_t count : options.counts) {
      DISTILL_RETURN_IF_ERROR(AllToAll(comm, arena, {count, dtype, ReduceOp::kSum, false}));
      DISTILL_RETURN_IF_ERROR(SendAndReceive(comm, arena, {count, dtype, ReduceOp::kSum, false}));
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
    DISTILL_RETURN_IF_ERROR(Reduce(comm, arena, c, comm.world_size() - 1));
    DISTILL_RETURN_IF_ERROR(AllToAll(comm, arena, part));
    DISTILL_RETURN_IF_ERROR(SendAndReceive(comm, arena, c));
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
