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
// Reduce-scatter is steps 1 and 2, all-gather and broadcast are steps 1 and 3; their registered sources are read in
// place.
#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/shm_group.h"
#include "libdistill/comm/shm_regions.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/shared_memory.h"

namespace distill {
namespace {

constexpr int64_t kSmallBytes = 8 << 10;
constexpr int64_t kCacheLine = 64;
constexpr int64_t kSlot = static_cast<int64_t>(ShmGroup::kSlotBytes);

class ShmCommunicator : public Communicator {
 public:
  ShmCommunicator(Setup setup, std::vector<SharedMemory> segments, ShmGroup group)
      : Communicator(setup.world.rank, setup.hosts),
        timeout_(setup.options.timeout),
        rendezvous_(std::move(setup.rendezvous)),
        segments_(std::move(segments)),
        group_(std::move(group)),
        regions_(std::make_shared<ShmRegions>(setup.world.rank)) {
    group_.ListenTo(rendezvous_.get());
  }
  ~ShmCommunicator() override { group_.Leave(); }

  absl::string_view backend() const override { return "shm"; }
  absl::Status CheckPeers() override { return group_.Look(); }

 protected:
  absl::Status DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                           Placement) override;
  absl::Status DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                               Placement) override;
  absl::Status DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement) override;
  absl::Status DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement) override;
  absl::Status DoBarrier() override;
  absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes) override;
  void Abandon(const absl::Status& error) override { group_.Fail(error); }

 private:
  // Elements [begin, end) of `count` that rank `slice` reduces; borders lie on cache lines.
  std::pair<int64_t, int64_t> Slice(int slice, int64_t count, int64_t size) const;
  int Divisor(ReduceOp op) const { return op == ReduceOp::kAverage ? world_size() : 1; }
  ShmCall Call(ShmOperation operation, const void* send, int64_t send_bytes, int64_t count, DType dtype) const {
    return {.operation = operation, .dtype = dtype, .count = count, .send = regions_->Find(send, send_bytes)};
  }
  // A call through the slots: `copy_in` elements [begin, begin + here) into this rank's slot, `take` them out of all
  // slots once they are there. Or all at once, out of every rank's registered buffer.
  struct Steps {
    absl::FunctionRef<void(int64_t begin, int64_t here)> copy_in;
    absl::FunctionRef<absl::Status(int64_t begin, int64_t here, const Deadline& deadline)> take;
    absl::FunctionRef<void()> in_places;
  };
  absl::Status Run(const ShmCall& call, int64_t total, int64_t per_round, const Steps& steps);
  // Begins a call: with `copy_in` done unless the source is registered, waits for all and learns whether every rank's
  // buffers lie in one region. A mixture begins anew, with all sources copied in.
  absl::StatusOr<bool> Begin(const ShmCall& call, absl::FunctionRef<void()> copy_in, const Deadline& deadline);

  absl::Status AllReduceSmall(const ShmCall& call, const char* send, char* receive);
  void AllReduceInPlaces(const ShmCall& call);
  void CopyOthersSlices(const char* send, int64_t count, int64_t size);
  absl::Status FinishRound(const ShmCall& call, const char* send, char* receive, int64_t count,
                           const Deadline& deadline);
  // Elements from `offset_bytes` on of every slot, but the caller's own data instead of its own slot.
  const void* const* Slots(int64_t offset_bytes, const void* mine);
  // `offset_bytes` into what every rank passed as its source.
  const void* const* Places(int64_t offset_bytes);

  const absl::Duration timeout_;
  const std::shared_ptr<Rendezvous> rendezvous_;
  const std::vector<SharedMemory> segments_;
  ShmGroup group_;
  const std::shared_ptr<ShmRegions> regions_;
  std::vector<const void*> sources_ = std::vector<const void*>(static_cast<size_t>(world_size()));
  std::vector<void*> targets_ = std::vector<void*>(static_cast<size_t>(world_size()));
};

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
  const int64_t size = SizeOf(dtype);
  const char* from = static_cast<const char*>(send);
  char* to = static_cast<char*>(receive);
  ShmCall call = Call(ShmOperation::kAllReduce, send, count * size, count, dtype);
  call.op = op;
  call.receive = regions_->Find(receive, count * size);
  if (!call.receive.registered()) call.send = {};  // results are written to all: both or none
  if (count * size <= kSmallBytes) return AllReduceSmall(call, from, to);
  const auto copy_in = [&](int64_t begin, int64_t here) { CopyOthersSlices(from + begin * size, here, size); };
  const auto take = [&](int64_t begin, int64_t here, const Deadline& deadline) {
    return FinishRound(call, from + begin * size, to + begin * size, here, deadline);
  };
  const auto in_places = [&] { AllReduceInPlaces(call); };
  return Run(call, count, kSlot / size, {copy_in, take, in_places});
}

absl::Status ShmCommunicator::AllReduceSmall(const ShmCall& call, const char* send, char* receive) {
  group_.NextRound();
  char* mine = group_.slot(rank());
  std::memcpy(mine, send, static_cast<size_t>(call.count * SizeOf(call.dtype)));
  group_.Publish(call);
  DISTILL_RETURN_IF_ERROR(group_.WaitForSameCall(Deadline::After(timeout_)));
  Reduce(receive, Slots(0, mine), world_size(), call.count, call.dtype, call.op, Divisor(call.op));
  return absl::OkStatus();
}

void ShmCommunicator::AllReduceInPlaces(const ShmCall& call) {
  const int64_t size = SizeOf(call.dtype);
  const auto [begin, end] = Slice(rank(), call.count, size);
  for (int r = 0; r < world_size(); ++r) {
    targets_[static_cast<size_t>(r)] = regions_->At(group_.CallOf(r).receive, r) + begin * size;
  }
  ReduceToAll(targets_.data(), world_size(), Places(begin * size), world_size(), end - begin, call.dtype, call.op,
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
  Reduce(group_.slot(rank()) + offset, Slots(offset, send + offset), world_size(), end - begin, call.dtype, call.op,
         Divisor(call.op));
  group_.Publish();
  for (int i = 0; i < world_size(); ++i) {
    const int r = (rank() + i) % world_size();  // own slice first, then each other's from a place of its own
    DISTILL_RETURN_IF_ERROR(group_.WaitFor(r, deadline));
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
    Reduce(to + begin * size, Slots(rank() * per_round * size, own), world_size(), here, dtype, op, Divisor(op));
    return absl::OkStatus();
  };
  const auto in_places = [&] {
    Reduce(to, Places(rank() * count * size), world_size(), count, dtype, op, Divisor(op));
  };
  return Run(call, count, per_round, {copy_in, take, in_places});
}

absl::Status ShmCommunicator::DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement) {
  const int64_t bytes = count * SizeOf(dtype);
  const char* from = static_cast<const char*>(send);
  char* to = static_cast<char*>(receive);
  const auto copy_out = [&](const void* const* blocks, int64_t begin, int64_t here) {
    for (int r = 0; r < world_size(); ++r) {
      char* target = to + r * bytes + begin;
      if (target != blocks[r]) std::memcpy(target, blocks[r], static_cast<size_t>(here));
    }
  };
  const auto copy_in = [&](int64_t begin, int64_t here) {
    std::memcpy(group_.slot(rank()), from + begin, static_cast<size_t>(here));
  };
  const auto take = [&](int64_t begin, int64_t here, const Deadline&) -> absl::Status {
    copy_out(Slots(0, from + begin), begin, here);
    return absl::OkStatus();
  };
  const auto in_places = [&] { copy_out(Places(0), 0, bytes); };
  return Run(Call(ShmOperation::kAllGather, send, bytes, count, dtype), bytes, kSlot, {copy_in, take, in_places});
}

absl::Status ShmCommunicator::DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement) {
  const int64_t bytes = count * SizeOf(dtype);
  char* data = static_cast<char*>(buffer);
  ShmCall call = Call(ShmOperation::kBroadcast, buffer, bytes, count, dtype);
  call.root = root;
  const auto copy_in = [&](int64_t begin, int64_t here) {
    if (rank() == root) std::memcpy(group_.slot(root), data + begin, static_cast<size_t>(here));
  };
  const auto take = [&](int64_t begin, int64_t here, const Deadline&) -> absl::Status {
    if (rank() != root) std::memcpy(data + begin, group_.slot(root), static_cast<size_t>(here));
    return absl::OkStatus();
  };
  const auto in_places = [&] {
    if (rank() != root) std::memcpy(data, Places(0)[root], static_cast<size_t>(bytes));
  };
  return Run(call, bytes, kSlot, {copy_in, take, in_places});
}

absl::Status ShmCommunicator::DoBarrier() {
  group_.NextRound();
  group_.Publish({.operation = ShmOperation::kBarrier});
  return group_.WaitForSameCall(Deadline::After(timeout_));
}

// What a rank sends about its segment: a ticket, or nothing when there was no memory for one.
constexpr size_t kTicketBytes = 96;

absl::StatusOr<std::unique_ptr<CommMemory>> ShmCommunicator::DoAllocate(int64_t bytes) {
  absl::StatusOr<SharedMemory> mine = SharedMemory::Create(static_cast<size_t>(bytes));
  std::string ticket = mine.ok() ? mine->ticket() : "";
  ticket.resize(kTicketBytes);
  std::string tickets(kTicketBytes * static_cast<size_t>(world_size()), '\0');
  DISTILL_RETURN_IF_ERROR(DoAllGather(ticket.data(), tickets.data(), kTicketBytes, DType::kUInt8, {}));
  DISTILL_RETURN_IF_ERROR(mine.status());
  std::vector<SharedMemory> segments;
  for (int r = 0; r < world_size(); ++r) {
    if (r == rank()) {
      segments.push_back(*std::move(mine));
      continue;
    }
    const char* theirs = tickets.data() + kTicketBytes * static_cast<size_t>(r);
    if (*theirs == '\0') return absl::ResourceExhaustedError(absl::StrCat(Describe(r), " has not that much memory"));
    DISTILL_ASSIGN_OR_RETURN(SharedMemory mapped, SharedMemory::Map(theirs));
    segments.push_back(std::move(mapped));
  }
  return ShmRegions::Add(regions_, std::move(segments));
}

struct Mapped {
  std::vector<SharedMemory> segments;
  std::vector<ProcessWatch> watches;
};

// Maps every rank's segment. A ticket begins with its process.
absl::Status MapAll(const std::vector<std::string>& tickets, int rank, SharedMemory mine, Mapped& mapped) {
  for (size_t r = 0; r < tickets.size(); ++r) {
    if (r == static_cast<size_t>(rank)) {
      mapped.segments.push_back(std::move(mine));
      mapped.watches.emplace_back();
      continue;
    }
    DISTILL_ASSIGN_OR_RETURN(SharedMemory theirs, SharedMemory::Map(tickets[r]));
    mapped.segments.push_back(std::move(theirs));
    int pid = 0;
    if (!absl::SimpleAtoi(tickets[r].substr(0, tickets[r].find(' ')), &pid)) {
      return absl::InternalError("a ticket without a process");
    }
    absl::StatusOr<ProcessWatch> watch = ProcessWatch::Open(pid);
    if (absl::IsUnimplemented(watch.status())) {
      LogWarning("a killed rank will be noticed by time-out only: this kernel has no pidfd_open");
      watch = ProcessWatch();
    }
    DISTILL_RETURN_IF_ERROR(watch.status());
    mapped.watches.push_back(*std::move(watch));
  }
  return absl::OkStatus();
}

}  // namespace

MadeCommunicator CreateShmCommunicator(Setup setup) {
  absl::StatusOr<SharedMemory> mine = SharedMemory::Create(ShmGroup::SegmentBytes());
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> tickets,
                           setup.Exchange(mine.ok() ? absl::StatusOr<std::string>(mine->ticket()) : mine.status()));
  Mapped mapped;
  const absl::Status result = MapAll(tickets, setup.world.rank, *std::move(mine), mapped);
  // Also proves that every rank was alive when it was mapped and watched.
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(result));
  std::vector<char*> segments;
  std::vector<std::string> names;
  for (size_t r = 0; r < mapped.segments.size(); ++r) {
    segments.push_back(mapped.segments[r].data());
    names.push_back(absl::StrCat("rank ", r, " on ", setup.hosts[r]));
  }
  ShmGroup group(setup.world.rank, std::move(segments), std::move(mapped.watches), std::move(names));
  return std::make_unique<ShmCommunicator>(std::move(setup), std::move(mapped.segments), std::move(group));
}

}  // namespace distill
