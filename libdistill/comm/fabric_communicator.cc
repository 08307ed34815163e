// Collectives over libfabric, between any ranks: the ring of ring.cc, and a barrier by dissemination. 16-bit types are
// added in float32 and rounded at every hop, since partial sums travel in the type of the data.
#include "libdistill/comm/fabric_communicator.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "libdistill/comm/reduce.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/cores.h"

namespace distill {
namespace {

// A connection of the fabric's may end before the rendezvous hears why.
constexpr absl::Duration kLastWords = absl::Seconds(1);
constexpr absl::Duration kLook = absl::Milliseconds(5);

// A reduce-scatter's messages: all steps of a group of chunks, then those of the next group, so that partial sums take
// the room of a group, however long the blocks are. A group is several windows long: the stream does not stop for it.
struct ReduceScatterOrder {
  ReduceScatterOrder(int64_t ranks, int64_t chunks)
      : steps(ranks - 1), groups(CeilDivide(chunks, 4 * kRingWindow)), group(CeilDivide(chunks, groups)) {}
  static int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
  int64_t Step(int64_t m) const { return m / group % steps; }
  int64_t Chunk(int64_t m) const { return m / (group * steps) * group + m % group; }
  int64_t rounds() const { return groups * steps; }  // of `group` messages each
  int64_t steps, groups, group;
};

}  // namespace

absl::StatusOr<FabricRegion> FabricCommunicator::Use(const void* data, int64_t bytes) {
  FabricRegion region;
  region.data = static_cast<char*>(const_cast<void*>(data));
  region.found = regions_->Find(data, bytes);
  if (region.found.memory != nullptr) return region;
  DISTILL_ASSIGN_OR_RETURN(region.own, progress_->endpoint().Register(data, static_cast<size_t>(bytes)));
  return region;
}

absl::Status FabricCommunicator::Fit(std::unique_ptr<CommMemory>& memory, FabricRegion& region, int64_t bytes) {
  if (memory != nullptr && memory->bytes() >= bytes) return absl::OkStatus();
  region = FabricRegion();  // of memory that goes now
  DISTILL_ASSIGN_OR_RETURN(memory, work_.Allocate(bytes));
  DISTILL_ASSIGN_OR_RETURN(region, Use(memory->data(), bytes));
  return absl::OkStatus();
}

absl::Status FabricCommunicator::FitLanding() {
  const int64_t bytes = kRingWindow * chunk_bytes_;
  DISTILL_RETURN_IF_ERROR(Fit(landing_memory_, landing_, bytes + FabricCredits::kBytes));
  credits_.Use(landing_.data + bytes, &landing_.memory());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FabricCommunicator>> FabricCommunicator::Create(const Setup& setup,
                                                                               std::unique_ptr<FabricEndpoint> endpoint,
                                                                               const FabricMeeting& meeting) {
  DISTILL_RETURN_IF_ERROR(endpoint->Connect(meeting.addresses, setup.Names()));
  const bool spins = ShareOfCores(setup.world, ReadCores("")) >= 2;
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<FabricProgress> progress, FabricProgress::Start(std::move(endpoint), spins));
  std::unique_ptr<FabricCommunicator> made(new FabricCommunicator(setup, std::move(progress), meeting.writing));
  DISTILL_RETURN_IF_ERROR(made->progress_->Run([&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(made->FitLanding());
    return made->writes_.Open();
  }));
  return made;
}

std::string FabricCommunicator::DescribeFabric() const {
  const FabricEndpoint& endpoint = progress_->endpoint();
  const size_t rails = endpoint.networks().size();
  return absl::StrCat("fabric: libfabric's provider ", endpoint.provider(), ", ", rails,
                      rails == 1 ? " rail: " : " rails: ", absl::StrJoin(endpoint.networks(), ", "),
                      writing_ == FabricWriting::kNone ? "" : "; finished blocks are written into registered memory");
}

absl::Status FabricCommunicator::Start(std::shared_ptr<Rendezvous> rendezvous) {
  rendezvous_ = std::move(rendezvous);
  ++call_;
  const absl::Status met = Annotate(RunCall([this] { return Meet(); }), "connecting the ranks over the fabric");
  if (!met.ok()) rendezvous_->Announce(met);
  return met;
}

RingSchedule FabricCommunicator::ScheduleOf(int64_t steps, int64_t chunks) const {
  RingSchedule schedule;
  schedule.next = static_cast<int>(Modulo(rank() + 1));
  schedule.previous = static_cast<int>(Modulo(rank() - 1));
  schedule.outgoing = schedule.incoming = steps * chunks;
  schedule.lag = schedule.reuse = chunks;
  schedule.tag = FabricTag(call_, calls_fingerprint_);
  return schedule;
}

RingSchedule FabricCommunicator::OneWay(int64_t chunks, bool outgoing, bool incoming) {
  RingSchedule schedule = ScheduleOf(1, chunks);
  schedule.credits = &credits_;
  if (!incoming) schedule.incoming = 0;
  if (!outgoing) schedule.outgoing = 0;
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
  return End(status, absl::StrCat(Describe(schedule.previous), ", this rank and ", Describe(schedule.next)));
}

// The registrations of a call go when it returns: before that, on the endpoint's own thread, so do its operations.
absl::Status FabricCommunicator::End(const absl::Status& status, const std::string& whom) {
  if (status.ok()) return work_.Finish();
  const absl::Status explained = Explain(status, whom);
  progress_->endpoint().Withdraw();
  return explained;
}

void FabricCommunicator::Close() {
  if (progress_ == nullptr) return;
  (void)progress_->Run([&] {
    progress_->endpoint().Withdraw();
    landing_ = FabricRegion();
    partial_ = FabricRegion();
    exchange_landing_ = FabricRegion();
    writes_.Close();
    regions_->Clear();
    return absl::OkStatus();
  });
  progress_.reset();
}

absl::Status FabricCommunicator::Explain(const absl::Status& status, const std::string& whom) {
  if (!absl::IsUnavailable(status)) return status;
  for (const Deadline patience = Deadline::After(kLastWords); !patience.Passed(); absl::SleepFor(kLook)) {
    DISTILL_RETURN_IF_ERROR(rendezvous_->CheckPeersIn(call_));
  }
  return Annotate(status, absl::StrCat("between ", whom));
}

absl::Status FabricCommunicator::DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                             Placement) {
  const CommAlgorithm algorithm = Choose(CommOperation::kAllReduce, count, dtype);
  if (algorithm != CommAlgorithm::kRing) return ExchangeAllReduce(algorithm, send, receive, count, dtype, op);
  Begin();
  const int64_t n = world_size();
  const FabricCut cut = Cut(count, n, dtype);
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, Use(send, count * cut.size));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to, Use(receive, count * cut.size));
  const auto piece = [&](const FabricRegion& region, int64_t block, int64_t m) {
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
    work_.Reduce(piece(to, block, m).data, sources, 2, elements, dtype, op, divisor);
  };
  RingSchedule schedule = ScheduleOf(2 * (n - 1), cut.chunks);
  WriteFrom((n - 1) * cut.chunks, cut, to, schedule);
  return Run(schedule, outgoing, incoming, taken);
}

// A chain to the root, from the rank after it on: each adds its own chunk to what arrives and passes the sum on.
//   time = (S + (n-2) * chunk) / bandwidth + (n-1) * latency
absl::Status FabricCommunicator::DoReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                                          int root, Placement) {
  Begin();
  const FabricCut cut = Cut(count, 1, dtype);
  const bool last = rank() == root;
  DISTILL_RETURN_IF_ERROR(Fit(partial_memory_, partial_, kRingWindow * chunk_bytes_));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, Use(send, count * cut.size));
  const bool first = Modulo(rank() - 1) == root;
  const auto own = [&](int64_t m) { return from.Piece(cut.ChunkBegin(m), cut.ChunkLength(0, m), cut.size); };
  const auto sum = [&](int64_t m) {
    return partial_.Piece(m % kRingWindow * cut.per_chunk, cut.ChunkLength(0, m), cut.size);
  };
  const auto taken = [&](int64_t m) {
    const int64_t elements = cut.ChunkLength(0, m);
    const void* sources[] = {Landing(m, elements, cut.size).data, own(m).data};
    char* out = last ? static_cast<char*>(receive) + cut.ChunkBegin(m) * cut.size : sum(m).data;
    work_.Reduce(out, sources, 2, elements, dtype, op, last && op == ReduceOp::kAverage ? world_size() : 1);
  };
  RingSchedule schedule = OneWay(cut.chunks, /*outgoing=*/!last, /*incoming=*/!first);
  schedule.lag = first ? cut.chunks : 0;
  schedule.reuse = last ? cut.chunks : kRingWindow;  // a sum that has left makes room for the next
  return Run(
      schedule, [&](int64_t m) { return first ? own(m) : sum(m); },
      [&](int64_t m) { return Landing(m, cut.ChunkLength(0, m), cut.size); }, taken);
}

absl::Status FabricCommunicator::DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype,
                                                 ReduceOp op, Placement) {
  const int64_t n = world_size();
  if (Choose(CommOperation::kReduceScatter, n * count, dtype) != CommAlgorithm::kRing) {
    return ExchangeReduceScatter(send, receive, count, dtype, op);
  }
  Begin();
  const int64_t size = SizeOf(dtype);
  const FabricCut cut = Cut(n * count, n, dtype);
  const ReduceScatterOrder order(n, cut.chunks);
  const int64_t chunk = cut.per_chunk, kept = order.group * chunk;
  DISTILL_RETURN_IF_ERROR(Fit(partial_memory_, partial_, n > 2 ? 2 * kept * size : 1));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, Use(send, n * count * size));
  const auto elements = [&](int64_t m) { return cut.ChunkLength(0, order.Chunk(m)); };
  const auto own = [&](int64_t block, int64_t m) {
    return from.Piece(block * count + cut.ChunkBegin(order.Chunk(m)), elements(m), size);
  };
  // Partial sums of a group for two steps in turn: what one step adds, the next one sends.
  const auto sum = [&](int64_t m) {
    return partial_.Piece(m / order.group % 2 * kept + m % order.group * chunk, elements(m), size);
  };
  const auto outgoing = [&](int64_t m) {
    return order.Step(m) == 0 ? own(Modulo(rank() - 1), m) : sum(m - order.group);
  };
  const auto incoming = [&](int64_t m) { return Landing(m, elements(m), size); };
  const auto taken = [&](int64_t m) {
    if (elements(m) == 0) return;
    const int64_t step = order.Step(m);
    const bool last = step == n - 2;
    const void* sources[] = {Landing(m, elements(m), size).data, own(Modulo(rank() - step - 2), m).data};
    char* out = last ? static_cast<char*>(receive) + cut.ChunkBegin(order.Chunk(m)) * size : sum(m).data;
    work_.Reduce(out, sources, 2, elements(m), dtype, op, op == ReduceOp::kAverage && last ? world_size() : 1);
  };
  return Run(ScheduleOf(order.rounds(), order.group), outgoing, incoming, taken);
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

absl::Status FabricCommunicator::RunCall(absl::FunctionRef<absl::Status()> call) {
  return progress_->Run([&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(Explain(progress_->broken(), "this rank and the others"));
    return call();
  });
}

absl::StatusOr<std::unique_ptr<CommMemory>> FabricCommunicator::DoAllocate(int64_t bytes, Placement) {
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommMemory> memory, Communicator::DoAllocate(bytes, {}));
  return RegisterToo(std::move(memory));
}

absl::StatusOr<std::unique_ptr<CommMemory>> FabricCommunicator::AllocateHere(int64_t bytes) {
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommMemory> memory, work_.Allocate(bytes));
  return RegisterToo(std::move(memory));
}

absl::StatusOr<std::unique_ptr<CommMemory>> FabricCommunicator::RegisterToo(std::unique_ptr<CommMemory> memory) {
  DISTILL_RETURN_IF_ERROR(progress_->Run([&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(memory, FabricRegions::Add(regions_, std::move(memory), progress_->endpoint()));
    return absl::OkStatus();
  }));
  return memory;
}

absl::StatusOr<std::unique_ptr<Communicator>> FabricCommunicator::DoSplit(const SplitPart& part) {
  return SplitFrom(*this, seed_, part.members, part.rank, [](Setup setup) -> MadeCommunicator {
    return setup.world.world_size == 1 ? CreateAloneCommunicator() : CreateFabricCommunicator(std::move(setup));
  });
}

absl::StatusOr<std::unique_ptr<FabricCommunicator>> FabricCommunicator::Join(
    Setup setup, absl::StatusOr<std::unique_ptr<FabricEndpoint>> endpoint) {
  DISTILL_ASSIGN_OR_RETURN(const FabricMeeting meeting, MeetOnFabric(setup, endpoint));
  auto made = Create(setup, *std::move(endpoint), meeting);
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(made.status()));
  if (setup.world.rank == 0) LogInfo((*made)->DescribeFabric());
  DISTILL_RETURN_IF_ERROR((*made)->Start(std::move(setup.rendezvous)));
  return made;
}

MadeCommunicator CreateFabricCommunicator(Setup setup) {
  absl::StatusOr<std::unique_ptr<FabricEndpoint>> endpoint = OpenFabric(setup);
  return FabricCommunicator::Join(std::move(setup), std::move(endpoint));
}

}  // namespace distill
