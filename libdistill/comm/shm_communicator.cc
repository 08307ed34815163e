#include "libdistill/comm/shm_communicator.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr int64_t kSlot = static_cast<int64_t>(ShmGroup::kSlotBytes);
constexpr int64_t kSmallBytes = 8 << 10;
constexpr int64_t kCacheLine = 64;
// Rounds overlap one another: the data are cut into a few even where one slot would hold them.
constexpr int64_t kRoundsAtLeast = 4;
constexpr int64_t kShortestRound = 64 << 10;
// What a rank sends about its segment: a ticket, or nothing when there was no memory for one.
constexpr size_t kTicketBytes = 96;

}  // namespace

absl::Status ShmCommunicator::Execute(const CommCall& call) {
  switch (call.operation) {
    case CommOperation::kAllReduce:
    case CommOperation::kReduce:
      return ReduceTo(call);
    case CommOperation::kBarrier:
      return Meet(call);
    case CommOperation::kSend:
      return pairs_.Send(call, rendezvous_->DeadlineAfter(timeout_));
    case CommOperation::kReceive:
      return pairs_.Receive(call, rendezvous_->DeadlineAfter(timeout_));
    default:
      return ExchangeBlocks(call);
  }
}

absl::Status ShmCommunicator::Meet(const CommCall& call) {
  group_.NextRound();
  group_.Publish({.signature = call.signature()});
  return group_.WaitForSameCall(rendezvous_->DeadlineAfter(timeout_));
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

absl::StatusOr<bool> ShmCommunicator::Begin(const ShmCall& shown, absl::FunctionRef<void()> copy_in,
                                            const Deadline& deadline) {
  group_.NextRound();
  const bool registered = shown.send.registered();
  if (!registered) copy_in();
  group_.Publish(shown);
  DISTILL_RETURN_IF_ERROR(group_.WaitForSameCall(deadline));
  bool any = false, same = true;
  for (int r = 0; r < world_size(); ++r) {
    const ShmCall& theirs = group_.CallOf(r);
    any = any || theirs.send.registered();
    same = same && theirs.send.region == shown.send.region && theirs.receive.region == shown.receive.region;
  }
  if (!any || (registered && same)) return registered;
  group_.NextRound();
  copy_in();
  group_.Publish();
  DISTILL_RETURN_IF_ERROR(group_.WaitForAll(deadline));
  return false;
}

absl::Status ShmCommunicator::RunRounds(const CommCall& call, int64_t per_round, const Steps& steps) {
  const Deadline deadline = rendezvous_->DeadlineAfter(timeout_);
  int64_t begin = 0;
  int64_t here = std::min(per_round, call.count);
  DISTILL_ASSIGN_OR_RETURN(const bool in_places, Begin(
                                                     Shown(call), [&] { steps.copy_in(0, here); }, deadline));
  if (in_places) {
    steps.in_places();
    group_.Publish();  // done with the others' memory
    return group_.WaitForAll(deadline);
  }
  for (;;) {
    // The next round is copied in before this one is taken out, so that nobody waits for a rank that is a little late.
    const uint64_t round = group_.round();
    const int64_t next = begin + here;
    const int64_t ahead = std::min(per_round, call.count - next);
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

// A slot holds a piece of every block that this rank gives: one for all ranks, or one for each.
absl::Status ShmCommunicator::ExchangeBlocks(const CommCall& call) {
  const int64_t size = SizeOf(call.dtype);
  const int blocks = call.input_blocks(world_size());
  const int mine = blocks > 1 ? rank() : 0;  // which of the others' blocks is for this rank
  const bool gives = call.operation != CommOperation::kBroadcast || rank() == call.root;
  const int64_t per_round = kSlot / size / blocks;
  const int64_t piece = per_round * size;
  const auto copy_in = [&](int64_t begin, int64_t here) {
    if (!gives) return;
    slot_stores_.Write((blocks > 1 ? blocks - 1 : 1) * here * size, [&](Stores stores) {
      for (int b = 0; b < blocks; ++b) {
        if (blocks > 1 && b == rank()) continue;
        CopyBytes(group_.slot(rank()) + b * piece, call.in() + b * call.stride_bytes() + begin * size, here * size,
                  stores);
      }
    });
  };
  const auto take = [&](uint64_t round, int64_t begin, int64_t here) {
    TakeBlocks(call, Slots(round, mine * piece, call.in() + mine * call.stride_bytes() + begin * size), begin, here);
  };
  const auto in_places = [&] { TakeBlocks(call, Places(mine * call.stride_bytes()), 0, call.count); };
  return RunRounds(call, per_round, {copy_in, take, in_places});
}

void ShmCommunicator::TakeBlocks(const CommCall& call, const void* const* blocks, int64_t begin, int64_t here) {
  const int64_t size = SizeOf(call.dtype);
  char* out = call.out() + begin * size;
  if (call.operation == CommOperation::kReduceScatter) {
    return distill::Reduce(out, blocks, world_size(), here, call.dtype, call.op, call.divisor(world_size()));
  }
  if (call.operation == CommOperation::kBroadcast) {
    if (rank() != call.root) CopyBytes(out, blocks[call.root], here * size);
    return;
  }
  for (int r = 0; r < world_size(); ++r) {
    char* target = out + r * call.stride_bytes();
    if (target != blocks[r]) CopyBytes(target, blocks[r], here * size);
  }
}

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
  const Deadline deadline = rendezvous_->DeadlineAfter(timeout_);
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
  DISTILL_RETURN_IF_ERROR(group_.WaitForSameCall(rendezvous_->DeadlineAfter(timeout_)));
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

absl::StatusOr<std::unique_ptr<CommMemory>> ShmCommunicator::DoAllocate(int64_t bytes, Placement) {
  absl::StatusOr<SharedMemory> mine = seed_.setup.memory->Create(static_cast<size_t>(bytes));
  std::string ticket = mine.ok() ? mine->ticket() : "";
  ticket.resize(kTicketBytes);
  std::string tickets(kTicketBytes * static_cast<size_t>(world_size()), '\0');
  DISTILL_RETURN_IF_ERROR(Execute({.operation = CommOperation::kAllGather,
                                   .input = ticket.data(),
                                   .output = tickets.data(),
                                   .count = kTicketBytes}));
  DISTILL_RETURN_IF_ERROR(mine.status());
  const auto ticket_of = [&](int r) { return tickets.data() + kTicketBytes * static_cast<size_t>(r); };
  for (int r = 0; r < world_size(); ++r) {
    if (*ticket_of(r) == '\0')
      return absl::ResourceExhaustedError(absl::StrCat(Describe(r), " has not that much memory"));
  }
  std::vector<SharedMemory> segments(static_cast<size_t>(world_size()));
  absl::Status mapped;
  for (int r = 0; r < world_size() && mapped.ok(); ++r) {
    absl::StatusOr<SharedMemory> segment = r == rank() ? std::move(mine) : seed_.setup.memory->Map(ticket_of(r));
    mapped = segment.status();
    if (mapped.ok()) segments[static_cast<size_t>(r)] = *std::move(segment);
  }
  // A rank that cannot map the others' memory keeps its own until they have mapped it: its error stays the only one.
  DISTILL_RETURN_IF_ERROR(Execute({.operation = CommOperation::kBarrier}));
  DISTILL_RETURN_IF_ERROR(mapped);
  return ShmRegions::Add(regions_, std::move(segments));
}

absl::StatusOr<std::unique_ptr<Communicator>> ShmCommunicator::DoSplit(const SplitPart& part) {
  return SplitFrom(*this, seed_, part.members, [](Setup setup) -> MadeCommunicator {
    return setup.world.world_size == 1 ? CreateAloneBackend() : CreateShmCommunicator(std::move(setup));
  });
}

}  // namespace distill
