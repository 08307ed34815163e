// Collectives between the ranks of one host, through memory that all of them have mapped.
//
// Registered buffers (Communicator::Allocate) are used where they lie. In an all-reduce of S bytes over n ranks
//   1. each rank publishes that its data are there;
//   2. rank r reduces slice r out of all n buffers, block by block, into all n buffers;       publish, and wait for
//   all.
// Per rank S bytes are read and S written, S/n of each from and to every rank's memory: no byte is moved twice.
//
// Plain pointers go through slots of 256 KiB, in rounds of at most one slot; slot_stores.h says how slots are filled.
// In a round
//   A. each rank copies its data into its slot, but for the slice that it will reduce itself;
//   B. rank r reduces slice r out of its own buffer and the others' slots, into its own slot and its result;
//   C. each rank copies slice q out of slot q, for every other q.
// Rounds overlap: in turn a rank does A of round k + 1, B of round k and C of round k - 1, and tells the others of each
// A and B by a counter, so that what it waits for was done while it was busy. Four slots a rank make that safe
// (shm_group.h). Per rank (n-1)/n of the data are copied in, each of n slices is read and 1/n written by the reduction,
// and (n-1)/n are copied out; only the user's buffers come from and go to memory:
//   time = S * (copy in + reduce + copy out) / bandwidth of the slots + 2 * S / memory bandwidth + latency of a round
// Up to 8 KiB the reduction is done by every rank for all of the data, which saves the second synchronisation.
//
// Each element is reduced by one rank, in the order of the ranks: all end with identical bits, whichever way it went.
// A reduce is an all-reduce whose results one rank takes. Reduce-scatter is A and B; all-gather, broadcast and
// all-to-all (a slot holds a piece for every rank) are A and C. Their registered sources are read in place.
// Messages between two ranks: shm_pairs.h.
#include "libdistill/comm/shm_communicator.h"

#include <algorithm>
#include <cstring>

#include "libdistill/comm/reduce.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr int64_t kSmallBytes = 8 << 10;
constexpr int64_t kCacheLine = 64;
constexpr int64_t kSlot = static_cast<int64_t>(ShmGroup::kSlotBytes);
// Rounds overlap one another: the data are cut into a few even where one slot would hold them.
constexpr int64_t kRoundsAtLeast = 4;
constexpr int64_t kShortestRound = 64 << 10;

}  // namespace

std::pair<int64_t, int64_t> ShmCommunicator::Slice(int slice, int64_t count, int64_t size) const {
  const int64_t unit = kCacheLine / size;
  const int64_t even = (count + world_size() - 1) / world_size();
  const int64_t length = (even + unit - 1) / unit * unit;
  return {std::min(slice * length, count), std::min((slice + 1) * length, count)};
}

const void* const* ShmCommunicator::Slots(uint64_t round, int64_t offset_bytes, const void* mine) {
  for (int r = 0; r < world_size(); ++r) {
    sources_[static_cast<size_t>(r)] = r == rank() ? mine : group_.slot(r, round) + offset_bytes;
  }
  return sources_.data();
}

const void* const* ShmCommunicator::Places(int64_t offset_bytes) {
  for (int r = 0; r < world_size(); ++r) {
    sources_[static_cast<size_t>(r)] = regions_->At(group_.CallOf(r).send, r) + offset_bytes;
  }
  return sources_.data();
}

absl::StatusOr<bool> ShmCommunicator::Begin(const ShmCall& call, absl::FunctionRef<void()> copy_in,
                                            const Deadline& deadline) {
  group_.NextRound();
  const bool registered = call.send.registered();
  if (!registered) copy_in();
  group_.Publish(call);
  DISTILL_RETURN_IF_ERROR(group_.WaitForSameCall(deadline));
  bool any = false, same = true;
  for (int r = 0; r < world_size(); ++r) {
    const ShmCall& theirs = group_.CallOf(r);
    any = any || theirs.send.registered();
    same = same && theirs.send.region == call.send.region && theirs.receive.region == call.receive.region;
  }
  if (!any || (registered && same)) return registered;
  group_.NextRound();
  copy_in();
  group_.Publish();
  DISTILL_RETURN_IF_ERROR(group_.WaitForAll(deadline));
  return false;
}

absl::Status ShmCommunicator::Run(const ShmCall& call, int64_t total, int64_t per_round, const Steps& steps) {
  const Deadline deadline = Deadline::After(timeout_);
  int64_t begin = 0;
  int64_t here = std::min(per_round, total);
  DISTILL_ASSIGN_OR_RETURN(const bool in_places, Begin(
                                                     call, [&] { steps.copy_in(0, here); }, deadline));
  if (in_places) {
    steps.in_places();
    group_.Publish();  // done with the others' memory
    return group_.WaitForAll(deadline);
  }
  for (;;) {
    // The next round is copied in before this one is taken out, so that nobody waits for a rank that is a little late.
    const uint64_t round = group_.round();
    const int64_t next = begin + here;
    const int64_t ahead = std::min(per_round, total - next);
    if (ahead > 0) {
      group_.NextRound();
      steps.copy_in(next, ahead);
      group_.Publish();
    }
    steps.take(round, begin, here);
    if (ahead == 0) return absl::OkStatus();
    DISTILL_RETURN_IF_ERROR(group_.WaitForAll(deadline));
    begin = next;
    here = ahead;
  }
}

absl::Status ShmCommunicator::DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                          Placement) {
  const int64_t bytes = count * SizeOf(dtype);
  ShmCall call = Call(ShmOperation::kAllReduce, send, bytes, count, dtype);
  call.op = op;
  call.receive = regions_->Find(receive, bytes);
  return ReduceTo(call, static_cast<const char*>(send), static_cast<char*>(receive));
}

absl::Status ShmCommunicator::DoReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                       int root, Placement) {
  const int64_t bytes = count * SizeOf(dtype);
  ShmCall call = Call(ShmOperation::kReduce, send, bytes, count, dtype);
  call.op = op;
  call.root = root;
  // Only the root's place counts; the others name their own, so that all name one region.
  call.receive = regions_->Find(rank() == root ? receive : send, bytes);
  return ReduceTo(call, static_cast<const char*>(send), static_cast<char*>(receive));
}

absl::Status ShmCommunicator::ReduceTo(const ShmCall& asked, const char* send, char* receive) {
  ShmCall call = asked;
  const int64_t size = SizeOf(call.dtype);
  if (!call.receive.registered()) call.send = {};  // results are written by all ranks: both or none
  if (call.count * size <= kSmallBytes) return ReduceSmall(call, send, receive);
  const Deadline deadline = Deadline::After(timeout_);
  const int64_t per_round = std::clamp(call.count * size / kRoundsAtLeast, kShortestRound, kSlot) / size;
  DISTILL_ASSIGN_OR_RETURN(
      const bool in_places,
      Begin(
          call,
          [&] {
            CopyOthersSlices({group_.round(), send, receive, std::min(per_round, call.count)}, size);
          },
          deadline));
  if (!in_places) return ReduceRounds(call, send, receive, per_round, deadline);
  ReduceInPlaces(call);
  group_.Publish();  // done with the others' memory
  return group_.WaitForAll(deadline);
}

// In turn, for every round k: copy in round k + 1, reduce round k, copy out round k - 1. What a rank waits for was done
// by the others while it did something else.
absl::Status ShmCommunicator::ReduceRounds(const ShmCall& call, const char* send, char* receive, int64_t per_round,
                                           const Deadline& deadline) {
  const int64_t size = SizeOf(call.dtype);
  const int64_t rounds = (call.count + per_round - 1) / per_round;
  const uint64_t first = group_.round();
  const auto round = [&](int64_t k) -> Round {
    const int64_t begin = k * per_round;
    return {first + static_cast<uint64_t>(k), send + begin * size, receive + begin * size,
            std::min(per_round, call.count - begin)};
  };
  const bool takes = Takes(call, rank());
  const Stores stores = send == receive ? Stores::kCached : StoresFor(2 * world_size() * call.count * size);
  group_.NextRound(static_cast<uint64_t>(rounds - 1));
  for (int64_t k = 0; k < rounds; ++k) {
    if (k > 0) DISTILL_RETURN_IF_ERROR(group_.WaitForCopied(round(k).number, deadline));
    if (k + 1 < rounds) {
      CopyOthersSlices(round(k + 1), size);
      group_.PublishCopied(round(k + 1).number);
    }
    ReduceSlice(call, round(k), stores);
    group_.PublishReduced(round(k).number);
    if (takes && k > 0) DISTILL_RETURN_IF_ERROR(CopyOut(round(k - 1), size, stores, deadline));
  }
  return takes ? CopyOut(round(rounds - 1), size, stores, deadline) : absl::OkStatus();
}

absl::Status ShmCommunicator::ReduceSmall(const ShmCall& call, const char* send, char* receive) {
  group_.NextRound();
  char* mine = group_.slot(rank());
  std::memcpy(mine, send, static_cast<size_t>(call.count * SizeOf(call.dtype)));
  group_.Publish(call);
  DISTILL_RETURN_IF_ERROR(group_.WaitForSameCall(Deadline::After(timeout_)));
  if (!Takes(call, rank())) return absl::OkStatus();
  distill::Reduce(receive, Slots(0, mine), world_size(), call.count, call.dtype, call.op, Divisor(call.op));
  return absl::OkStatus();
}

void ShmCommunicator::ReduceInPlaces(const ShmCall& call) {
  const int64_t size = SizeOf(call.dtype);
  const auto [begin, end] = Slice(rank(), call.count, size);
  int targets = 0;
  for (int r = 0; r < world_size(); ++r) {
    if (!Takes(call, r)) continue;
    targets_[static_cast<size_t>(targets++)] = regions_->At(group_.CallOf(r).receive, r) + begin * size;
  }
  const bool in_place = call.send == call.receive;
  const Stores stores = in_place ? Stores::kCached : StoresFor(2 * world_size() * call.count * size);
  ReduceToAll(targets_.data(), targets, Places(begin * size), world_size(), end - begin, call.dtype, call.op,
              Divisor(call.op), stores == Stores::kPastCaches ? targets : 0);
}

void ShmCommunicator::CopyOthersSlices(const Round& round, int64_t size) {
  char* mine = group_.slot(rank(), round.number);
  const auto [begin, end] = Slice(rank(), round.count, size);
  slot_stores_.Write((round.count - (end - begin)) * size, [&, begin = begin, end = end](Stores stores) {
    CopyBytes(mine, round.send, begin * size, stores);
    CopyBytes(mine + end * size, round.send + end * size, (round.count - end) * size, stores);
  });
}

// Into this rank's slot, for the others, and at once into the result, unless that is to go past the caches.
void ShmCommunicator::ReduceSlice(const ShmCall& call, const Round& round, Stores stores) {
  const int64_t size = SizeOf(call.dtype);
  const auto [begin, end] = Slice(rank(), round.count, size);
  const int64_t offset = begin * size;
  void* const outs[] = {group_.slot(rank(), round.number) + offset, round.receive + offset};
  const int out_count = Takes(call, rank()) && stores == Stores::kCached ? 2 : 1;
  ReduceToAll(outs, out_count, Slots(round.number, offset, round.send + offset), world_size(), end - begin, call.dtype,
              call.op, Divisor(call.op), slot_stores_.stores() == Stores::kPastCaches ? 1 : 0);
}

absl::Status ShmCommunicator::CopyOut(const Round& round, int64_t size, Stores stores, const Deadline& deadline) {
  for (int i = stores == Stores::kCached ? 1 : 0; i < world_size(); ++i) {
    const int r = (rank() + i) % world_size();  // each from a place of its own
    DISTILL_RETURN_IF_ERROR(group_.WaitForReduced(r, round.number, deadline));
    const auto [first, last] = Slice(r, round.count, size);
    CopyBytes(round.receive + first * size, group_.slot(r, round.number) + first * size, (last - first) * size, stores);
  }
  return absl::OkStatus();
}

absl::Status ShmCommunicator::DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                              Placement) {
  const int64_t size = SizeOf(dtype);
  const char* from = static_cast<const char*>(send);
  char* to = static_cast<char*>(receive);
  ShmCall call = Call(ShmOperation::kReduceScatter, send, world_size() * count * size, count, dtype);
  call.op = op;
  // A slot holds a piece of every rank's block.
  const int64_t per_round = kSlot / size / world_size();
  const auto copy_in = [&](int64_t begin, int64_t here) {
    slot_stores_.Write((world_size() - 1) * here * size, [&](Stores stores) {
      for (int r = 0; r < world_size(); ++r) {
        if (r == rank()) continue;
        CopyBytes(group_.slot(rank()) + r * per_round * size, from + (r * count + begin) * size, here * size, stores);
      }
    });
  };
  const auto take = [&](uint64_t round, int64_t begin, int64_t here) {
    const void* own = from + (rank() * count + begin) * size;
    distill::Reduce(to + begin * size, Slots(round, rank() * per_round * size, own), world_size(), here, dtype, op,
                    Divisor(op));
  };
  const auto in_places = [&] {
    distill::Reduce(to, Places(rank() * count * size), world_size(), count, dtype, op, Divisor(op));
  };
  return Run(call, count, per_round, {copy_in, take, in_places});
}

absl::Status ShmCommunicator::DoBarrier() {
  group_.NextRound();
  group_.Publish({.operation = ShmOperation::kBarrier});
  return group_.WaitForSameCall(Deadline::After(timeout_));
}

}  // namespace distill
