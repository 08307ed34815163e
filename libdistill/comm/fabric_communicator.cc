// Collectives over libfabric, between any ranks: the ring of ring.cc, and a barrier by dissemination. 16-bit types are
// added in float32 and rounded at every hop, since partial sums travel in the type of the data.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/fabric_meeting.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/comm/ring.h"
#include "libdistill/comm/setup.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;

// How a call's data are cut: `blocks` of nearly `count / blocks` elements, each of `chunks` pieces, the last ones short
// or empty. A pure function of arguments that are the same on every rank.
struct Cut {
  Cut(int64_t count, int64_t blocks, int64_t element_bytes)
      : count(count), blocks(blocks), size(element_bytes), longest((count + blocks - 1) / blocks) {
    per_chunk = std::max<int64_t>(1, std::min(longest, kChunkBytes / size));
    chunks = (longest + per_chunk - 1) / per_chunk;
  }
  int64_t Begin(int64_t block) const { return block * (count / blocks) + std::min(block, count % blocks); }
  int64_t Length(int64_t block) const { return Begin(block + 1) - Begin(block); }
  // Where chunk c begins in a block, and how many elements it has there.
  int64_t ChunkBegin(int64_t chunk) const { return chunk * per_chunk; }
  int64_t ChunkLength(int64_t block, int64_t chunk) const {
    return std::clamp<int64_t>(Length(block) - ChunkBegin(chunk), 0, per_chunk);
  }
  int64_t count, blocks, size, longest;
  int64_t per_chunk = 1;
  int64_t chunks = 1;
};

// A buffer together with its registration.
struct Region {
  char* data = nullptr;
  FabricMemory memory;
  RingPiece Piece(int64_t first, int64_t elements, int64_t size) const {
    return {data + first * size, static_cast<size_t>(elements * size), &memory};
  }
};

class FabricCommunicator : public Communicator {
 public:
  FabricCommunicator(const Setup& setup, std::unique_ptr<FabricEndpoint> endpoint)
      : Communicator(setup.world.rank, setup.hosts),
        timeout_(setup.options.timeout),
        deadline_(setup.deadline),
        ring_(endpoint.get()),
        endpoint_(std::move(endpoint)) {}

  // Whoever is still in a call hears that this rank has done its part in it.
  ~FabricCommunicator() override {
    if (rendezvous_ != nullptr) rendezvous_->NoteFinishedCalls(call_);
  }

  absl::string_view backend() const override { return "fabric"; }
  absl::Status CheckPeers() override { return rendezvous_->CheckPeers(); }
  // What this rank does alone: gives the others' addresses to the endpoint, registers its own buffers.
  absl::Status Prepare(const std::vector<std::string>& addresses);
  // Meets the neighbours within the deadline for joining.
  absl::Status Start(std::shared_ptr<Rendezvous> rendezvous);

 protected:
  absl::Status DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                           Placement) override;
  absl::Status DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                               Placement) override;
  absl::Status DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement) override;
  absl::Status DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement) override;
  absl::Status DoBarrier() override;
  void Abandon(const absl::Status& error) override;

 private:
  int64_t Modulo(int64_t block) const { return (block % world_size() + world_size()) % world_size(); }
  void Begin() {
    ++call_;
    deadline_ = Deadline::After(timeout_);
  }
  RingSchedule ScheduleOf(int64_t steps, int64_t chunks) const;
  absl::Status Meet();
  absl::Status Check(const RingSchedule& schedule, bool waits_for_previous);
  absl::Status Run(const RingSchedule& schedule, absl::FunctionRef<RingPiece(int64_t)> outgoing,
                   absl::FunctionRef<RingPiece(int64_t)> incoming, absl::FunctionRef<void(int64_t)> taken);
  absl::StatusOr<Region> Use(const void* data, int64_t bytes);
  // Where message m lands before it is added to this rank's own data.
  RingPiece Landing(int64_t m, int64_t elements, int64_t size) const {
    return {landing_.data + m % kRingWindow * kChunkBytes, static_cast<size_t>(elements * size), &landing_.memory};
  }

  const absl::Duration timeout_;
  Deadline deadline_;
  std::shared_ptr<Rendezvous> rendezvous_;
  uint64_t call_ = 0;  // the start is number 1
  Ring ring_;
  std::vector<char> landing_bytes_ = std::vector<char>(kRingWindow * kChunkBytes);
  std::vector<char> partial_bytes_;
  std::unique_ptr<FabricEndpoint> endpoint_;  // after what it may still write to
  Region landing_;                            // before the endpoint that it is registered with
};

absl::StatusOr<Region> FabricCommunicator::Use(const void* data, int64_t bytes) {
  Region region;
  region.data = static_cast<char*>(const_cast<void*>(data));
  DISTILL_ASSIGN_OR_RETURN(region.memory, endpoint_->Register(data, static_cast<size_t>(bytes)));
  return region;
}

absl::Status FabricCommunicator::Prepare(const std::vector<std::string>& addresses) {
  DISTILL_RETURN_IF_ERROR(endpoint_->Connect(addresses));
  DISTILL_ASSIGN_OR_RETURN(landing_, Use(landing_bytes_.data(), static_cast<int64_t>(landing_bytes_.size())));
  return absl::OkStatus();
}

absl::Status FabricCommunicator::Start(std::shared_ptr<Rendezvous> rendezvous) {
  rendezvous_ = std::move(rendezvous);
  ++call_;
  const absl::Status met = Annotate(Meet(), "connecting the ranks over the fabric");
  if (!met.ok()) rendezvous_->Announce(met);
  return met;
}

RingSchedule FabricCommunicator::ScheduleOf(int64_t steps, int64_t chunks) const {
  RingSchedule schedule;
  schedule.next = static_cast<int>(Modulo(rank() + 1));
  schedule.previous = static_cast<int>(Modulo(rank() - 1));
  schedule.outgoing = schedule.incoming = steps * chunks;
  schedule.lag = schedule.reuse = chunks;
  schedule.tag = call_ << 32;
  return schedule;
}

absl::Status FabricCommunicator::Check(const RingSchedule& schedule, bool waits_for_previous) {
  DISTILL_RETURN_IF_ERROR(rendezvous_->CheckPeersIn(call_));
  if (!deadline_.Passed()) return absl::OkStatus();
  return deadline_.Error(waits_for_previous ? absl::StrCat("waiting for data from ", Describe(schedule.previous))
                                            : absl::StrCat("sending to ", Describe(schedule.next)));
}

absl::Status FabricCommunicator::Run(const RingSchedule& schedule, absl::FunctionRef<RingPiece(int64_t)> outgoing,
                                     absl::FunctionRef<RingPiece(int64_t)> incoming,
                                     absl::FunctionRef<void(int64_t)> taken) {
  const absl::Status status =
      ring_.Run(schedule, outgoing, incoming, taken,
                [this](const RingSchedule& s, bool waits_for_previous) { return Check(s, waits_for_previous); });
  if (!absl::IsUnavailable(status)) return status;
  // The fabric knows ranks by number; the rendezvous may know better what happened.
  DISTILL_RETURN_IF_ERROR(rendezvous_->CheckPeersIn(call_));
  return Annotate(status,
                  absl::StrCat("between ", Describe(schedule.previous), ", this rank and ", Describe(schedule.next)));
}

absl::Status FabricCommunicator::DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                             Placement) {
  Begin();
  const int64_t n = world_size();
  const Cut cut(count, n, SizeOf(dtype));
  DISTILL_ASSIGN_OR_RETURN(const Region from, Use(send, count * cut.size));
  DISTILL_ASSIGN_OR_RETURN(const Region to, Use(receive, count * cut.size));
  const auto piece = [&](const Region& region, int64_t block, int64_t m) {
    const int64_t chunk = m % cut.chunks;
    return region.Piece(cut.Begin(block) + cut.ChunkBegin(chunk), cut.ChunkLength(block, chunk), cut.size);
  };
  const auto outgoing = [&](int64_t m) {
    const int64_t step = m / cut.chunks;
    return piece(step == 0 ? from : to, Modulo(rank() - step), m);
  };
  const auto incoming = [&](int64_t m) {
    const int64_t step = m / cut.chunks;
    const int64_t block = Modulo(rank() - step - 1);
    return step >= n - 1 ? piece(to, block, m) : Landing(m, cut.ChunkLength(block, m % cut.chunks), cut.size);
  };
  const auto taken = [&](int64_t m) {
    const int64_t step = m / cut.chunks;
    const int64_t block = Modulo(rank() - step - 1);
    const int64_t elements = cut.ChunkLength(block, m % cut.chunks);
    if (step >= n - 1 || elements == 0) return;
    const void* sources[] = {Landing(m, elements, cut.size).data, piece(from, block, m).data};
    const int divisor = op == ReduceOp::kAverage && step == n - 2 ? world_size() : 1;
    Reduce(piece(to, block, m).data, sources, 2, elements, dtype, op, divisor);
  };
  return Run(ScheduleOf(2 * (n - 1), cut.chunks), outgoing, incoming, taken);
}

absl::Status FabricCommunicator::DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype,
                                                 ReduceOp op, Placement) {
  Begin();
  const int64_t n = world_size();
  const int64_t size = SizeOf(dtype);
  const Cut cut(n * count, n, size);
  // Partial sums of one block for two steps in turn: what one step adds, the next one sends.
  partial_bytes_.resize(std::max(partial_bytes_.size(), static_cast<size_t>(2 * count * size)));
  DISTILL_ASSIGN_OR_RETURN(const Region from, Use(send, n * count * size));
  DISTILL_ASSIGN_OR_RETURN(const Region partial, Use(partial_bytes_.data(), 2 * count * size));
  const auto elements = [&](int64_t m) { return cut.ChunkLength(0, m % cut.chunks); };
  const auto own = [&](int64_t block, int64_t m) {
    return from.Piece(block * count + cut.ChunkBegin(m % cut.chunks), elements(m), size);
  };
  const auto sum = [&](int64_t step, int64_t m) {
    return partial.Piece(step % 2 * count + cut.ChunkBegin(m % cut.chunks), elements(m), size);
  };
  const auto outgoing = [&](int64_t m) {
    const int64_t step = m / cut.chunks;
    return step == 0 ? own(Modulo(rank() - 1), m) : sum(step - 1, m);
  };
  const auto incoming = [&](int64_t m) { return Landing(m, elements(m), size); };
  const auto taken = [&](int64_t m) {
    const int64_t step = m / cut.chunks;
    const bool last = step == n - 2;
    const void* sources[] = {Landing(m, elements(m), size).data, own(Modulo(rank() - step - 2), m).data};
    char* out = last ? static_cast<char*>(receive) + cut.ChunkBegin(m % cut.chunks) * size : sum(step, m).data;
    Reduce(out, sources, 2, elements(m), dtype, op, op == ReduceOp::kAverage && last ? world_size() : 1);
  };
  return Run(ScheduleOf(n - 1, cut.chunks), outgoing, incoming, taken);
}

absl::Status FabricCommunicator::DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement) {
  Begin();
  const int64_t n = world_size();
  const int64_t size = SizeOf(dtype);
  const Cut cut(n * count, n, size);
  DISTILL_ASSIGN_OR_RETURN(const Region to, Use(receive, n * count * size));
  char* mine = to.data + rank() * count * size;
  if (mine != send) std::memcpy(mine, send, static_cast<size_t>(count * size));
  const auto piece = [&](int64_t block, int64_t m) {
    const int64_t chunk = m % cut.chunks;
    return to.Piece(block * count + cut.ChunkBegin(chunk), cut.ChunkLength(block, chunk), size);
  };
  return Run(
      ScheduleOf(n - 1, cut.chunks), [&](int64_t m) { return piece(Modulo(rank() - m / cut.chunks), m); },
      [&](int64_t m) { return piece(Modulo(rank() - m / cut.chunks - 1), m); }, [](int64_t) {});
}

absl::Status FabricCommunicator::DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement) {
  Begin();
  const Cut cut(count, 1, SizeOf(dtype));
  DISTILL_ASSIGN_OR_RETURN(const Region data, Use(buffer, count * cut.size));
  const auto piece = [&](int64_t m) { return data.Piece(cut.ChunkBegin(m), cut.ChunkLength(0, m), cut.size); };
  RingSchedule schedule = ScheduleOf(1, cut.chunks);
  schedule.reuse = cut.chunks;  // nothing is overwritten
  if (rank() == root) {
    schedule.incoming = 0;
    schedule.lag = cut.chunks;
  } else {
    schedule.lag = 0;  // chunk m goes on once chunk m is here
    if (schedule.next == root) schedule.outgoing = 0;
  }
  return Run(schedule, piece, piece, [](int64_t) {});
}

absl::Status FabricCommunicator::DoBarrier() {
  Begin();
  return Meet();
}

// Dissemination: in round k each rank tells the one 2^k further on; after log2(n) rounds each has heard of all.
absl::Status FabricCommunicator::Meet() {
  RingSchedule schedule = ScheduleOf(1, 1);
  for (int64_t distance = 1; distance < world_size(); distance *= 2, ++schedule.tag) {
    schedule.next = static_cast<int>(Modulo(rank() + distance));
    schedule.previous = static_cast<int>(Modulo(rank() - distance));
    DISTILL_RETURN_IF_ERROR(Run(
        schedule, [&](int64_t) { return landing_.Piece(0, 1, 1); }, [&](int64_t) { return landing_.Piece(1, 1, 1); },
        [](int64_t) {}));
  }
  return absl::OkStatus();
}

void FabricCommunicator::Abandon(const absl::Status&) {
  landing_ = Region();
  endpoint_.reset();  // nothing writes to the caller's buffers from here on
}

}  // namespace

MadeCommunicator CreateFabricCommunicator(Setup setup) {
  absl::StatusOr<std::unique_ptr<FabricEndpoint>> endpoint = FabricEndpoint::Create(ChooseFabric(setup));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, ExchangeAddresses(setup, endpoint));
  if (setup.world.rank == 0) LogInfo(absl::StrCat("fabric: libfabric's provider ", (*endpoint)->provider()));
  auto made = std::make_unique<FabricCommunicator>(setup, *std::move(endpoint));
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(made->Prepare(addresses)));
  DISTILL_RETURN_IF_ERROR(made->Start(std::move(setup.rendezvous)));
  return made;
}

}  // namespace distill
