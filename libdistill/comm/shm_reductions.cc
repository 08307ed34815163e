// All-reduce and reduce over shared memory: see shm_communicator.cc.
#include <algorithm>
#include <cstring>

#include "libdistill/comm/reduce.h"
#include "libdistill/comm/shm_communicator.h"
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

absl::Status ShmCommunicator::ReduceTo(const CommCall& call) {
  const int64_t size = SizeOf(call.dtype);
  ShmCall shown = Shown(call);
  // Of a reduce only the root's place counts; the others name their own, so that all name one region.
  shown.receive = Takes(call, rank()) ? regions_->Find(call.output, call.bytes()) : shown.send;
  if (!shown.receive.registered()) shown.send = {};  // results are written by all ranks: both or none
  if (call.bytes() <= kSmallBytes) return ReduceSmall(call, shown);
  const Deadline deadline = Deadline::After(timeout_);
  const int64_t per_round = std::clamp(call.bytes() / kRoundsAtLeast, kShortestRound, kSlot) / size;
  const auto copy_in = [&] {
    CopyOthersSlices({group_.round(), call.in(), call.out(), std::min(per_round, call.count)}, size);
  };
  DISTILL_ASSIGN_OR_RETURN(const bool in_places, Begin(shown, copy_in, deadline));
  if (!in_places) return ReduceRounds(call, per_round, deadline);
  ReduceInPlaces(call, shown);
  group_.Publish();  // done with the others' memory
  return group_.WaitForAll(deadline);
}

// For every round k in order: copy in round k + 1, reduce round k, copy out round k - 1. What a rank waits for was done
// by the others while it did something else.
absl::Status ShmCommunicator::ReduceRounds(const CommCall& call, int64_t per_round, const Deadline& deadline) {
  const int64_t size = SizeOf(call.dtype);
  const int64_t rounds = (call.count + per_round - 1) / per_round;
  const uint64_t first = group_.round();
  const bool takes = Takes(call, rank());
  const auto round = [&](int64_t k) -> Round {
    const int64_t begin = k * per_round;
    return {first + static_cast<uint64_t>(k), call.in() + begin * size, takes ? call.out() + begin * size : nullptr,
            std::min(per_round, call.count - begin)};
  };
  const Stores stores = call.input == call.output ? Stores::kCached : StoresFor(2 * world_size() * call.bytes());
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

absl::Status ShmCommunicator::ReduceSmall(const CommCall& call, const ShmCall& shown) {
  group_.NextRound();
  char* mine = group_.slot(rank());
  std::memcpy(mine, call.input, static_cast<size_t>(call.bytes()));
  group_.Publish(shown);
  DISTILL_RETURN_IF_ERROR(group_.WaitForSameCall(Deadline::After(timeout_)));
  if (!Takes(call, rank())) return absl::OkStatus();
  distill::Reduce(call.output, Slots(group_.round(), 0, mine), world_size(), call.count, call.dtype, call.op,
                  call.divisor(world_size()));
  return absl::OkStatus();
}

void ShmCommunicator::ReduceInPlaces(const CommCall& call, const ShmCall& shown) {
  const int64_t size = SizeOf(call.dtype);
  const auto [begin, end] = Slice(rank(), call.count, size);
  int targets = 0;
  for (int r = 0; r < world_size(); ++r) {
    if (!Takes(call, r)) continue;
    targets_[static_cast<size_t>(targets++)] = regions_->At(group_.CallOf(r).receive, r) + begin * size;
  }
  const bool in_place = shown.send == shown.receive;
  const Stores stores = in_place ? Stores::kCached : StoresFor(2 * world_size() * call.bytes());
  ReduceToAll(targets_.data(), targets, Places(begin * size), world_size(), end - begin, call.dtype, call.op,
              call.divisor(world_size()), stores == Stores::kPastCaches ? targets : 0);
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
void ShmCommunicator::ReduceSlice(const CommCall& call, const Round& round, Stores stores) {
  const int64_t size = SizeOf(call.dtype);
  const auto [begin, end] = Slice(rank(), round.count, size);
  const int64_t offset = begin * size;
  const bool takes = Takes(call, rank()) && stores == Stores::kCached;
  void* const outs[] = {group_.slot(rank(), round.number) + offset, takes ? round.receive + offset : nullptr};
  ReduceToAll(outs, takes ? 2 : 1, Slots(round.number, offset, round.send + offset), world_size(), end - begin,
              call.dtype, call.op, call.divisor(world_size()), slot_stores_.stores() == Stores::kPastCaches ? 1 : 0);
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

}  // namespace distill
