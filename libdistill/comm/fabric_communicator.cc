// Calls over libfabric, between any ranks: on the ring of ring.cc (fabric_reductions.cc, fabric_moves.cc), by the
// algorithms of exchange.h where the table of costs prefers them to the ring, and a barrier by dissemination.
#include "libdistill/comm/fabric_communicator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "libdistill/comm/device_reduce.h"
#include "libdistill/comm/plain_memory.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/cores.h"

namespace distill {
namespace {

// A connection of the fabric's may end before the rendezvous hears why.
constexpr absl::Duration kLastWords = absl::Seconds(1);
constexpr absl::Duration kLook = absl::Milliseconds(5);

// Chunks are shorter where more of them land at one time.
int64_t ChunkElements(int ranks, DType dtype) {
  constexpr int64_t kLandingBytes = 4 << 20;
  constexpr int64_t kShortest = 16 << 10;
  const int64_t bytes = std::clamp(kLandingBytes / (2 * (ranks - 1)), kShortest, kFabricChunkBytes);
  return bytes / SizeOf(dtype);
}

ExchangePlan PlanOf(CommAlgorithm algorithm, CommOperation operation, const ExchangeShape& shape) {
  if (operation == CommOperation::kReduceScatter) return PlanDirectReduceScatter(shape);
  if (operation == CommOperation::kAllGather) return PlanDirectAllGather(shape);
  if (algorithm == CommAlgorithm::kRecursiveDoubling) return PlanRecursiveDoubling(shape);
  if (algorithm == CommAlgorithm::kRabenseifner) return PlanRabenseifner(shape);
  return PlanDirectAllReduce(shape);
}

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
  const absl::Status met = Annotate(OnCallThread([this] { return Meet(); }), "connecting the ranks over the fabric");
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

absl::Status FabricCommunicator::RunRing(const RingSchedule& schedule, absl::FunctionRef<RingPiece(int64_t)> outgoing,
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

absl::Status FabricCommunicator::Execute(const CommCall& call) {
  if (IsPair(call.operation)) return Move(call);
  Begin(call);
  const CommAlgorithm algorithm = Choose(call);
  if (algorithm != CommAlgorithm::kRing) return RunExchange(algorithm, call);
  switch (call.operation) {
    case CommOperation::kAllReduce:
      return RingAllReduce(call);
    case CommOperation::kReduceScatter:
      return RingReduceScatter(call);
    case CommOperation::kAllGather:
      return RingAllGather(call);
    case CommOperation::kBroadcast:
      return ChainBroadcast(call);
    case CommOperation::kReduce:
      return ChainReduce(call);
    case CommOperation::kAllToAll:
      return DirectAllToAll(call);
    default:
      return Meet();
  }
}

void FabricCommunicator::Begin(const CommCall& call) {
  ++call_;
  calls_fingerprint_ = calls_fingerprint_ * 16777619 ^ FingerprintOf(call.signature());
  deadline_ = rendezvous_->DeadlineAfter(timeout_);
}

// Dissemination: in round k each rank tells the one 2^k further on; after log2(n) rounds each has heard of all.
absl::Status FabricCommunicator::Meet() {
  RingSchedule schedule = ScheduleOf(1, 1);
  for (int64_t distance = 1; distance < world_size(); distance *= 2, ++schedule.tag) {
    schedule.next = static_cast<int>(Modulo(rank() + distance));
    schedule.previous = static_cast<int>(Modulo(rank() - distance));
    DISTILL_RETURN_IF_ERROR(RunRing(
        schedule, [&](int64_t) { return landing_.Piece(0, 1, 1); }, [&](int64_t) { return landing_.Piece(1, 1, 1); },
        [](int64_t) {}));
  }
  return absl::OkStatus();
}

absl::Status FabricCommunicator::OnCallThread(absl::FunctionRef<absl::Status()> call) {
  return progress_->Run([&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(Explain(progress_->broken(), "this rank and the others"));
    return call();
  });
}

absl::StatusOr<std::unique_ptr<CommMemory>> FabricCommunicator::DoAllocate(int64_t bytes, Placement) {
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommMemory> memory, PlainMemory::Create(bytes));
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
    return setup.world.world_size == 1 ? CreateAloneBackend() : CreateFabricCommunicator(std::move(setup));
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

CommAlgorithm FabricCommunicator::Choose(const CommCall& call) const {
  if (!HasAlgorithms(call.operation)) return CommAlgorithm::kRing;
  if (work_.on_device() && world_size() > kMostDeviceSources) return CommAlgorithm::kRing;
  return seed_.tuning.Choose(call.operation, call.blocks(world_size()) * call.bytes(), layout_, /*flat_only=*/true);
}

absl::Status FabricCommunicator::RunExchange(CommAlgorithm algorithm, const CommCall& call) {
  const int64_t size = SizeOf(call.dtype);
  const int64_t all = call.blocks(world_size()) * call.count;
  const void* input = call.input;
  if (call.operation == CommOperation::kAllGather) {  // this rank's block goes where it belongs first
    char* mine = call.out() + rank() * call.bytes();
    if (mine != call.input) work_.Copy(mine, call.input, call.bytes());
    input = call.output;
  }
  const bool in_place = call.operation != CommOperation::kReduceScatter && input == call.output;
  const ExchangePlan plan =
      PlanOf(algorithm, call.operation, {rank(), world_size(), all, ChunkElements(world_size(), call.dtype), in_place});
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, Use(input, all * size));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to, Use(call.output, call.output_blocks(world_size()) * call.bytes()));
  DISTILL_RETURN_IF_ERROR(Fit(exchange_memory_, exchange_landing_, std::max<int64_t>(plan.landing * size, 1)));
  const Exchange::Call buffers = {.input = {from.data, &from.memory()},
                                  .result = {to.data, &to.memory()},
                                  .landing = {exchange_landing_.data, &exchange_landing_.memory()},
                                  .dtype = call.dtype,
                                  .op = call.op,
                                  .ranks = world_size(),
                                  .tag = FabricTag(call_, calls_fingerprint_)};
  const absl::Status status = exchange_.Run(plan, buffers, [this](int peer, bool receiving) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(rendezvous_->CheckPeersIn(call_));
    if (!deadline_.Passed()) return absl::OkStatus();
    return deadline_.Error(absl::StrCat(receiving ? "waiting for data from " : "sending to ", Describe(peer)));
  });
  return End(status, "this rank and others");
}

}  // namespace distill
