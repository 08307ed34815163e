#include "tests/comm/random_schedule.h"

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/random.h"
#include "libdistill/core/status_macros.h"
#include "tests/comm/grid_buffers.h"

namespace distill::testing {
namespace {

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce, kAllToAll, kPairs, kBarrier };
constexpr uint64_t kKinds = 8;

struct Call {
  uint64_t number;
  Kind kind;
  int64_t count;
  DType dtype;
  ReduceOp op;
  int root;
  bool in_place;
  std::string Text() const {
    return absl::StrCat("call ", number, ", kind ", static_cast<int>(kind), " of ", count, " ", NameOf(dtype), ", ",
                        NameOf(op), ", root ", root, in_place ? ", in place" : "");
  }
};

Call Draw(Random& random, uint64_t number, int ranks) {
  constexpr int64_t kLengths[] = {1, 20, 3000, 40000};
  Call call = {};
  call.number = number;
  call.kind = static_cast<Kind>(random.Below(kKinds));
  call.count = static_cast<int64_t>(random.Below(static_cast<uint64_t>(kLengths[random.Below(4)]) + 1));
  call.dtype = static_cast<DType>(random.Below(7));
  call.op = static_cast<ReduceOp>(random.Below(5));
  call.root = static_cast<int>(random.Below(static_cast<uint64_t>(ranks)));
  call.in_place = random.Below(2) == 1;
  return call;
}

// What rank `rank` passes at element i, which begins anew after kPeriod elements: results are exact in every type, for
// up to 8 ranks.
constexpr int64_t kPeriod = 509;
int Input(const Call& call, int ranks, int rank, int64_t i) {
  const uint64_t x = Random(call.number, static_cast<uint64_t>(i % kPeriod * 8 + rank)).Next() >> 8;
  if (call.op == ReduceOp::kProduct) return static_cast<int>(1 + x % 2);
  return call.op == ReduceOp::kAverage ? static_cast<int>(x % 4) * ranks : static_cast<int>(x % 16);
}

absl::Status Pairs(Communicator& comm, const Call& call, Buffer& send, Buffer& receive) {
  const int n = comm.world_size();
  const int peer = (call.root + n - comm.rank()) % n;  // its own inverse: all ranks are paired, or alone
  if (peer == comm.rank()) return absl::OkStatus();
  if (comm.rank() < peer) DISTILL_RETURN_IF_ERROR(comm.Send(send.at(0), call.count, call.dtype, peer));
  DISTILL_RETURN_IF_ERROR(comm.Receive(receive.at(0), call.count, call.dtype, peer));
  if (comm.rank() > peer) DISTILL_RETURN_IF_ERROR(comm.Send(send.at(0), call.count, call.dtype, peer));
  return Verify(receive, 0, call.count, kPeriod, call.Text(), [&](int64_t i) { return Input(call, n, peer, i); });
}

// A block of each rank's.
absl::Status VerifyBlocks(Buffer& receive, int ranks, const Call& call,
                          absl::FunctionRef<int(int from, int64_t i)> expected) {
  for (int from = 0; from < ranks; ++from) {
    DISTILL_RETURN_IF_ERROR(Verify(receive, from * call.count, call.count, kPeriod, call.Text(),
                                   [&](int64_t i) { return expected(from, i); }));
  }
  return absl::OkStatus();
}

// Runs the call on this rank and compares.
absl::Status Make(Communicator& comm, Arena& arena, const Call& call) {
  const int n = comm.world_size();
  const int me = comm.rank();
  const int64_t count = call.count;
  const auto input = [&](int rank, int64_t i) { return Input(call, n, rank, i); };
  const auto combined = [&](int64_t i) { return Combine(call.op, n, [&](int r) { return input(r, i); }); };
  const bool blocks = call.kind == Kind::kReduceScatter || call.kind == Kind::kAllToAll;
  arena.Reset();
  Buffer send(arena, blocks ? n * count : count, call.dtype, 1);
  send.Fill(0, blocks ? n * count : count, kPeriod, [&](int64_t i) { return input(me, i); });
  const bool wide = call.kind == Kind::kAllGather || call.kind == Kind::kAllToAll;
  Buffer receive(arena, wide ? n * count : count, call.dtype, 2);
  Buffer& result = call.in_place ? send : receive;
  switch (call.kind) {
    case Kind::kAllReduce:
      DISTILL_RETURN_IF_ERROR(comm.AllReduce(send.at(0), result.at(0), count, call.dtype, call.op));
      return Verify(result, 0, count, kPeriod, call.Text(), combined);
    case Kind::kReduceScatter:
      DISTILL_RETURN_IF_ERROR(comm.ReduceScatter(send.at(0), receive.at(0), count, call.dtype, call.op));
      return Verify(receive, 0, count, kPeriod, call.Text(), [&](int64_t i) { return combined(me * count + i); });
    case Kind::kAllGather:
      DISTILL_RETURN_IF_ERROR(comm.AllGather(send.at(0), receive.at(0), count, call.dtype));
      return VerifyBlocks(receive, n, call, [&](int from, int64_t i) { return input(from, i); });
    case Kind::kBroadcast:
      DISTILL_RETURN_IF_ERROR(comm.Broadcast(send.at(0), count, call.dtype, call.root));
      return Verify(send, 0, count, kPeriod, call.Text(), [&](int64_t i) { return input(call.root, i); });
    case Kind::kReduce:
      DISTILL_RETURN_IF_ERROR(comm.Reduce(send.at(0), result.at(0), count, call.dtype, call.op, call.root));
      return me == call.root ? Verify(result, 0, count, kPeriod, call.Text(), combined) : absl::OkStatus();
    case Kind::kAllToAll:
      DISTILL_RETURN_IF_ERROR(comm.AllToAll(send.at(0), receive.at(0), count, call.dtype));
      return VerifyBlocks(receive, n, call, [&](int from, int64_t i) { return input(from, me * count + i); });
    case Kind::kPairs:
      return Pairs(comm, call, send, receive);
    case Kind::kBarrier:
      return comm.Barrier();
  }
  return absl::OkStatus();
}

struct Member {
  Communicator* comm;
  Arena plain;
  Arena registered;
};

absl::Status Add(Communicator* comm, std::vector<Member>& members) {
  constexpr int64_t kBytes = 8 << 20;
  Member member = {comm, {}, {}};
  DISTILL_ASSIGN_OR_RETURN(member.plain, Arena::Create(*comm, BufferKind::kPlain, 0));
  DISTILL_ASSIGN_OR_RETURN(member.registered, Arena::Create(*comm, BufferKind::kRegistered, kBytes));
  members.push_back(std::move(member));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunRandomSchedule(Communicator& comm, uint64_t seed, int calls) {
  DISTILL_ASSIGN_OR_RETURN(const auto parity, comm.Split(comm.rank() % 2, comm.rank()));
  DISTILL_ASSIGN_OR_RETURN(const auto backwards, comm.Split(0, -comm.rank()));
  DISTILL_ASSIGN_OR_RETURN(const auto nested, parity->Split(parity->rank() / 2, 0));
  std::vector<Member> members;
  for (Communicator* each : {&comm, parity.get(), backwards.get(), nested.get()}) {
    DISTILL_RETURN_IF_ERROR(Add(each, members));
  }
  Random random(seed);
  for (int i = 0; i < calls; ++i) {
    Member& member = members[random.Below(members.size())];
    const uint64_t number = seed * 1'000'003 + static_cast<uint64_t>(i);
    const bool registered = random.Below(3) == 0;
    // Every rank draws as often, whatever the size of its part is.
    Random drawn(number);
    const Call call = Draw(drawn, number, member.comm->world_size());
    DISTILL_RETURN_IF_ERROR(Make(*member.comm, registered ? member.registered : member.plain, call));
  }
  return absl::OkStatus();
}

}  // namespace distill::testing
