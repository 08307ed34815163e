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
// Rounds overlap: a rank does A of round k + 1, then B of round k, then C of round k - 1, and tells the others of each
// A and B by a counter, so that what it waits for was done while it was busy. Four slots a rank make that safe
// (shm_group.h). Per rank (n-1)/n of the data are copied in, each of n slices is read and 1/n written by the reduction,
// and (n-1)/n are copied out; only the user's buffers come from and go to memory:
//   time = S * (copy in + reduce + copy out) / bandwidth of the slots + 2 * S / memory bandwidth + latency of a round
// Up to 8 KiB the reduction is done by every rank for all of the data, which saves the second synchronisation.
//
// Each element is reduced by one rank, in the order of the ranks: all end with identical bits, whichever way it went.
// A reduce is an all-reduce whose results one rank takes. Reduce-scatter is A and B; all-gather, broadcast and
// all-to-all (a slot holds a piece for every rank) are A and C. Their registered sources are read in place.
// Messages between two ranks: shm_pairs.h. Reductions to one or all ranks: shm_reductions.cc.
#include "libdistill/comm/shm_communicator.h"

#include <algorithm>

#include "libdistill/comm/reduce.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr int64_t kSlot = static_cast<int64_t>(ShmGroup::kSlotBytes);

}  // namespace

absl::Status ShmCommunicator::Execute(const CommCall& call) {
  switch (call.operation) {
    case CommOperation::kAllReduce:
    case CommOperation::kReduce:
      return ReduceTo(call);
    case CommOperation::kBarrier:
      return Meet(call);
    case CommOperation::kSend:
      return pairs_.Send(call, Deadline::After(timeout_));
    case CommOperation::kReceive:
      return pairs_.Receive(call, Deadline::After(timeout_));
    default:
      return ExchangeBlocks(call);
  }
}

absl::Status ShmCommunicator::Meet(const CommCall& call) {
  group_.NextRound();
  group_.Publish({.signature = call.signature()});
  return group_.WaitForSameCall(Deadline::After(timeout_));
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
  const Deadline deadline = Deadline::After(timeout_);
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
        CopyBytes(group_.slot(rank()) + b * piece, call.in() + (b * call.count + begin) * size, here * size, stores);
      }
    });
  };
  const auto take = [&](uint64_t round, int64_t begin, int64_t here) {
    TakeBlocks(call, Slots(round, mine * piece, call.in() + (mine * call.count + begin) * size), begin, here);
  };
  const auto in_places = [&] { TakeBlocks(call, Places(mine * call.bytes()), 0, call.count); };
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
    char* target = out + r * call.bytes();
    if (target != blocks[r]) CopyBytes(target, blocks[r], here * size);
  }
}

}  // namespace distill
