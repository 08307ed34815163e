// Collectives between the ranks of one host, through memory that all of them have mapped.
//
// Registered buffers (Communicator::Allocate) are used where they lie. In an all-reduce of S bytes over n ranks
//   1. each rank publishes that its data are there;
//   2. rank r reduces slice r out of all n buffers, block by block, into all n buffers; publish, and wait for all.
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
// Messages between two ranks: shm_pairs.h. Internal to comm/.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/shm_group.h"
#include "libdistill/comm/shm_pairs.h"
#include "libdistill/comm/shm_regions.h"
#include "libdistill/comm/slot_stores.h"
#include "libdistill/comm/split.h"
#include "libdistill/transport/shared_memory.h"

namespace distill {

class ShmCommunicator : public CommBackend {
 public:
  ShmCommunicator(Setup setup, std::vector<SharedMemory> segments, ShmGroup group)
      : CommBackend(setup),
        seed_(setup),
        timeout_(setup.options.timeout),
        rendezvous_(std::move(setup.rendezvous)),
        segments_(std::move(segments)),
        group_(std::move(group)),
        regions_(std::make_shared<ShmRegions>(setup.world.rank)) {
    group_.ListenTo(rendezvous_.get());
  }
  ~ShmCommunicator() override { group_.Leave(); }

  absl::string_view backend() const override { return "shm"; }
  bool takes_strides(Placement) const override { return true; }
  absl::Status CheckPeers() override { return group_.Look(); }

 protected:
  absl::Status Execute(const CommCall& call) override;
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override;
  absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes, Placement placement) override;
  void Abandon(const absl::Status& error) override { group_.Fail(error); }

 private:
  absl::Status Meet(const CommCall& call);
  // What the others are told of a call, and where its input lies if that is registered.
  ShmCall Shown(const CommCall& call) const {
    return {
        .signature = call.signature(),
        .send = regions_->Find(call.input, (call.input_blocks(world_size()) - 1) * call.stride_bytes() + call.bytes())};
  }
  // Begins a call: with `copy_in` done unless the source is registered, waits for all and learns whether every rank's
  // buffers lie in one region. A mixture begins anew, with all sources copied in.
  absl::StatusOr<bool> Begin(const ShmCall& shown, absl::FunctionRef<void()> copy_in, const Deadline& deadline);

  // Reduce-scatter, all-gather, broadcast and all-to-all: each rank gives blocks, and takes its own out of the others'.
  absl::Status ExchangeBlocks(const CommCall& call);
  // A call through the slots: `copy_in` elements [begin, begin + here) into this rank's slot, `take` them out of all
  // slots once they are there. Or all at once, out of every rank's registered buffer.
  struct Steps {
    absl::FunctionRef<void(int64_t begin, int64_t here)> copy_in;
    absl::FunctionRef<void(uint64_t round, int64_t begin, int64_t here)> take;
    absl::FunctionRef<void()> in_places;
  };
  absl::Status RunRounds(const CommCall& call, int64_t per_round, const Steps& steps);
  // What this rank takes of elements [begin, begin + here), which lie in `blocks`, one of each rank.
  void TakeBlocks(const CommCall& call, const void* const* blocks, int64_t begin, int64_t here);

  // An all-reduce, or a reduce to the root.
  absl::Status ReduceTo(const CommCall& call);
  bool Takes(const CommCall& call, int r) const {
    return call.operation == CommOperation::kAllReduce || r == call.root;
  }
  // Elements [begin, end) of `count` that rank `slice` reduces; borders lie on cache lines.
  std::pair<int64_t, int64_t> Slice(int slice, int64_t count, int64_t size) const;
  absl::Status ReduceSmall(const CommCall& call, const ShmCall& shown);
  void ReduceInPlaces(const CommCall& call, const ShmCall& shown);
  absl::Status ReduceRounds(const CommCall& call, int64_t per_round, const Deadline& deadline);
  // One round of an all-reduce or a reduce, of elements [begin, begin + count) of the call.
  struct Round {
    uint64_t number;
    const char* send;
    char* receive;
    int64_t count;
  };
  void CopyOthersSlices(const Round& round, int64_t size);
  void ReduceSlice(const CommCall& call, const Round& round, Stores stores);
  absl::Status CopyOut(const Round& round, int64_t size, Stores stores, const Deadline& deadline);

  // Elements from `offset_bytes` on of every slot, but the caller's own data instead of its own slot.
  const void* const* Slots(uint64_t round, int64_t offset_bytes, const void* mine);
  // `offset_bytes` into what every rank passed as its source.
  const void* const* Places(int64_t offset_bytes);

  const SplitSeed seed_;
  const absl::Duration timeout_;
  const std::shared_ptr<Rendezvous> rendezvous_;
  const std::vector<SharedMemory> segments_;
  ShmGroup group_;
  ShmPairs pairs_{&group_};
  SlotStores slot_stores_;
  const std::shared_ptr<ShmRegions> regions_;
  std::vector<const void*> sources_ = std::vector<const void*>(static_cast<size_t>(world_size()));
  std::vector<void*> targets_ = std::vector<void*>(static_cast<size_t>(world_size()));
};

}  // namespace distill
