// Collectives between the ranks of one host, through slots in shared memory.
//
// An all-reduce of S bytes over n ranks goes in rounds of one slot (512 KiB, so that slots stay in cache). In a round
//   1. each rank copies its data into its slot, but for the slice that it will reduce itself;       publish
//   2. rank r reduces slice r out of its own buffer and the others' slots, into its own slot;       publish
//   3. each rank copies slice q out of slot q, for every q.
// Each element is reduced by one rank, in the order of the ranks: all end with identical bits. Per rank and round
// (n-1)/n slots are copied in, one slot's worth is read and 1/n written by the reduction, and one slot is copied out.
//   time = S * (copy in + reduce + copy out) / memory bandwidth + 2 * (rounds) * latency of a cache line
// Up to 8 KiB step 2 is done by every rank for all of the data, which saves the second synchronisation.
// Reduce-scatter is steps 1 and 2, all-gather and broadcast are steps 1 and 3.
#include <algorithm>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/shm_group.h"
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
        group_(std::move(group)) {}
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
  void Abandon(const absl::Status& error) override { group_.Fail(error.message()); }

 private:
  struct Kind {
    DType dtype;
    ReduceOp op;
    int64_t size;  // of an element
    int divisor;
  };
  Kind KindOf(DType dtype, ReduceOp op) const {
    return {dtype, op, SizeOf(dtype), op == ReduceOp::kAverage ? world_size() : 1};
  }
  // Elements [begin, end) of `count` that rank `slice` reduces; borders lie on cache lines.
  std::pair<int64_t, int64_t> Slice(int slice, int64_t count, int64_t size) const;
  // Calls `round` for elements [begin, begin + here) of `total`, in order, with a fresh slot each.
  using Round = absl::FunctionRef<absl::Status(int64_t begin, int64_t here, const Deadline& deadline)>;
  absl::Status InRounds(int64_t total, int64_t per_round, Round round);
  absl::Status AllReduceSmall(const char* send, char* receive, int64_t count, const Kind& kind,
                              const Deadline& deadline);
  absl::Status AllReduceRound(const char* send, char* receive, int64_t count, const Kind& kind,
                              const Deadline& deadline);
  // Elements [offset, offset + bytes) of every slot, but the caller's own data instead of its own slot.
  std::vector<const void*>& Sources(int64_t offset_bytes, const void* mine);

  const absl::Duration timeout_;
  const std::unique_ptr<Rendezvous> rendezvous_;
  const std::vector<SharedMemory> segments_;
  ShmGroup group_;
  std::vector<const void*> sources_;
};

std::pair<int64_t, int64_t> ShmCommunicator::Slice(int slice, int64_t count, int64_t size) const {
  const int64_t unit = kCacheLine / size;
  const int64_t even = (count + world_size() - 1) / world_size();
  const int64_t length = (even + unit - 1) / unit * unit;
  return {std::min(slice * length, count), std::min((slice + 1) * length, count)};
}

std::vector<const void*>& ShmCommunicator::Sources(int64_t offset_bytes, const void* mine) {
  sources_.resize(static_cast<size_t>(world_size()));
  for (int r = 0; r < world_size(); ++r) {
    sources_[static_cast<size_t>(r)] = r == rank() ? mine : group_.slot(r) + offset_bytes;
  }
  return sources_;
}

absl::Status ShmCommunicator::InRounds(int64_t total, int64_t per_round, Round round) {
  const Deadline deadline = Deadline::After(timeout_);
  for (int64_t begin = 0; begin < total; begin += per_round) {
    group_.NextRound();
    DISTILL_RETURN_IF_ERROR(round(begin, std::min(per_round, total - begin), deadline));
  }
  return absl::OkStatus();
}

absl::Status ShmCommunicator::DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                          Placement) {
  const Kind kind = KindOf(dtype, op);
  const bool small = count * kind.size <= kSmallBytes;
  return InRounds(count, kSlot / kind.size, [&](int64_t begin, int64_t here, const Deadline& deadline) {
    const char* from = static_cast<const char*>(send) + begin * kind.size;
    char* to = static_cast<char*>(receive) + begin * kind.size;
    return small ? AllReduceSmall(from, to, here, kind, deadline) : AllReduceRound(from, to, here, kind, deadline);
  });
}

absl::Status ShmCommunicator::AllReduceSmall(const char* send, char* receive, int64_t count, const Kind& kind,
                                             const Deadline& deadline) {
  char* mine = group_.slot(rank());
  std::memcpy(mine, send, static_cast<size_t>(count * kind.size));
  group_.Publish();
  DISTILL_RETURN_IF_ERROR(group_.WaitForAll(deadline));
  Reduce(receive, Sources(0, mine).data(), world_size(), count, kind.dtype, kind.op, kind.divisor);
  return absl::OkStatus();
}

absl::Status ShmCommunicator::AllReduceRound(const char* send, char* receive, int64_t count, const Kind& kind,
                                             const Deadline& deadline) {
  char* mine = group_.slot(rank());
  const auto [begin, end] = Slice(rank(), count, kind.size);
  const int64_t offset = begin * kind.size;
  std::memcpy(mine, send, static_cast<size_t>(offset));
  std::memcpy(mine + end * kind.size, send + end * kind.size, static_cast<size_t>((count - end) * kind.size));
  group_.Publish();
  DISTILL_RETURN_IF_ERROR(group_.WaitForAll(deadline));
  Reduce(mine + offset, Sources(offset, send + offset).data(), world_size(), end - begin, kind.dtype, kind.op,
         kind.divisor);
  group_.Publish();
  for (int i = 0; i < world_size(); ++i) {
    const int r = (rank() + i) % world_size();  // own slice first, then each other's from a place of its own
    DISTILL_RETURN_IF_ERROR(group_.WaitFor(r, deadline));
    const auto [first, last] = Slice(r, count, kind.size);
    std::memcpy(receive + first * kind.size, group_.slot(r) + first * kind.size,
                static_cast<size_t>((last - first) * kind.size));
  }
  return absl::OkStatus();
}

absl::Status ShmCommunicator::DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                              Placement) {
  const Kind kind = KindOf(dtype, op);
  const char* from = static_cast<const char*>(send);
  // A slot holds a piece of every rank's block.
  const int64_t per_round = kSlot / kind.size / world_size();
  return InRounds(count, per_round, [&](int64_t begin, int64_t here, const Deadline& deadline) -> absl::Status {
    char* mine = group_.slot(rank());
    for (int r = 0; r < world_size(); ++r) {
      if (r == rank()) continue;
      std::memcpy(mine + r * per_round * kind.size, from + (r * count + begin) * kind.size,
                  static_cast<size_t>(here * kind.size));
    }
    group_.Publish();
    DISTILL_RETURN_IF_ERROR(group_.WaitForAll(deadline));
    const void* own = from + (rank() * count + begin) * kind.size;
    Reduce(static_cast<char*>(receive) + begin * kind.size, Sources(rank() * per_round * kind.size, own).data(),
           world_size(), here, dtype, op, kind.divisor);
    return absl::OkStatus();
  });
}

absl::Status ShmCommunicator::DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement) {
  const int64_t bytes = count * SizeOf(dtype);
  return InRounds(bytes, kSlot, [&](int64_t begin, int64_t here, const Deadline& deadline) -> absl::Status {
    std::memcpy(group_.slot(rank()), static_cast<const char*>(send) + begin, static_cast<size_t>(here));
    group_.Publish();
    for (int i = 0; i < world_size(); ++i) {
      const int r = (rank() + i) % world_size();
      DISTILL_RETURN_IF_ERROR(group_.WaitFor(r, deadline));
      std::memcpy(static_cast<char*>(receive) + r * bytes + begin, group_.slot(r), static_cast<size_t>(here));
    }
    return absl::OkStatus();
  });
}

absl::Status ShmCommunicator::DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement) {
  char* data = static_cast<char*>(buffer);
  return InRounds(count * SizeOf(dtype), kSlot,
                  [&](int64_t begin, int64_t here, const Deadline& deadline) -> absl::Status {
                    const size_t bytes = static_cast<size_t>(here);
                    if (rank() == root) std::memcpy(group_.slot(root), data + begin, bytes);
                    group_.Publish();
                    // All, not the root alone: the slots may alternate only when everybody is past the round before.
                    DISTILL_RETURN_IF_ERROR(group_.WaitForAll(deadline));
                    if (rank() != root) std::memcpy(data + begin, group_.slot(root), bytes);
                    return absl::OkStatus();
                  });
}

absl::Status ShmCommunicator::DoBarrier() {
  group_.NextRound();
  group_.Publish();
  return group_.WaitForAll(Deadline::After(timeout_));
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
