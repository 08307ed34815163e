// Collectives between the ranks of one host, through memory that all of them have mapped.
//
// Registered buffers (Communicator::Allocate) are used where they lie. In an all-reduce of S bytes over n ranks
//   1. each rank publishes that its data are there;
//   2. rank r reduces slice r out of all n buffers, block by block, into all n buffers;       publish, and wait for
//   all.
// Per rank S bytes are read and S written, S/n of each from and to every rank's memory: no byte is moved twice.
//
// Plain pointers go through slots of 512 KiB (which stay in cache), in rounds of one slot. In a round
//   1. each rank copies its data into its slot, but for the slice that it will reduce itself;       publish
//   2. rank r reduces slice r out of its own buffer and the others' slots, into its own slot;       publish
//   3. each rank copies slice q out of slot q, for every q.
// Per rank and round (n-1)/n slots are copied in, one slot's worth is read and 1/n written by the reduction, and one
// slot is copied out.
//   time = S * (copy in + reduce + copy out) / memory bandwidth + 2 * (rounds) * latency of a cache line
// Up to 8 KiB step 2 is done by every rank for all of the data, which saves the second synchronisation.
//
// Each element is reduced by one rank, in the order of the ranks: all end with identical bits, whichever way it went.
// A reduce is an all-reduce whose results one rank takes. Reduce-scatter is steps 1 and 2; all-gather, broadcast and
// all-to-all (a slot holds a piece for every rank) are steps 1 and 3. Their registered sources are read in place.
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

}  // namespace

std::pair<int64_t, int64_t> ShmCommunicator::Slice(int slice, int64_t count, int64_t size) const {
  const int64_t unit = kCacheLine / size;
  const int64_t even = (count + world_size() - 1) / world_size();
  const int64_t length = (even + unit - 1) / unit * unit;
  return {std::min(slice * length, count), std::min((slice + 1) * length, count)};
}

const void* const* ShmCommunicator::Slots(int64_t offset_bytes, const void* mine) {
  for (int r = 0; r < world_size(); ++r) {
    sources_[static_cast<size_t>(r)] = r == rank() ? mine : group_.slot(r) + offset_bytes;
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
    DISTILL_RETURN_IF_ERROR(steps.take(begin, here, deadline));
    begin += here;
    if (begin == total) return absl::OkStatus();
    here = std::min(per_round, total - begin);
    group_.NextRound();
    steps.copy_in(begin, here);
    group_.Publish();
    DISTILL_RETURN_IF_ERROR(group_.WaitForAll(deadline));
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
  const auto copy_in = [&](int64_t begin, int64_t here) { CopyOthersSlices(send + begin * size, here, size); };
  const auto take = [&](int64_t begin, int64_t here, const Deadline& deadline) {
    return FinishRound(call, send + begin * size, receive + begin * size, here, deadline);
  };
  const auto in_places = [&] { ReduceInPlaces(call); };
  return Run(call, call.count, kSlot / size, {copy_in, take, in_places});
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
  ReduceToAll(targets_.data(), targets, Places(begin * size), world_size(), end - begin, call.dtype, call.op,
              Divisor(call.op));
}

void ShmCommunicator::CopyOthersSlices(const char* send, int64_t count, int64_t size) {
  char* mine = group_.slot(rank());
  const auto [begin, end] = Slice(rank(), count, size);
  std::memcpy(mine, send, static_cast<size_t>(begin * size));
  std::memcpy(mine + end * size, send + end * size, static_cast<size_t>((count - end) * size));
}

absl::Status ShmCommunicator::FinishRound(const ShmCall& call, const char* send, char* receive, int64_t count,
                                          const Deadline& deadline) {
  const int64_t size = SizeOf(call.dtype);
  const auto [begin, end] = Slice(rank(), count, size);
  const int64_t offset = begin * size;
  distill::Reduce(group_.slot(rank()) + offset, Slots(offset, send + offset), world_size(), end - begin, call.dtype,
                  call.op, Divisor(call.op));
  group_.Publish();
  for (int i = 0; i < world_size(); ++i) {
    const int r = (rank() + i) % world_size();  // own slice first, then each other's from a place of its own
    DISTILL_RETURN_IF_ERROR(group_.WaitFor(r, deadline));
    if (!Takes(call, rank())) continue;
    const auto [first, last] = Slice(r, count, size);
    std::memcpy(receive + first * size, group_.slot(r) + first * size, static_cast<size_t>((last - first) * size));
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
    for (int r = 0; r < world_size(); ++r) {
      if (r == rank()) continue;
      std::memcpy(group_.slot(rank()) + r * per_round * size, from + (r * count + begin) * size,
                  static_cast<size_t>(here * size));
    }
  };
  const auto take = [&](int64_t begin, int64_t here, const Deadline&) -> absl::Status {
    const void* own = from + (rank() * count + begin) * size;
    distill::Reduce(to + begin * size, Slots(rank() * per_round * size, own), world_size(), here, dtype, op,
                    Divisor(op));
    return absl::OkStatus();
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
