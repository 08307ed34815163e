// Calls over libfabric, between any ranks: on the ring (fabric_ring.h), and by the algorithms of exchange.h where the
// table of costs prefers them to it.
#include "libdistill/comm/fabric_communicator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/comm/device_reduce.h"
#include "libdistill/comm/fabric_cut.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/cores.h"

namespace distill {
namespace {

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

absl::StatusOr<std::unique_ptr<FabricCommunicator>> FabricCommunicator::Create(const Setup& setup,
                                                                               std::unique_ptr<FabricEndpoint> endpoint,
                                                                               const FabricMeeting& meeting) {
  DISTILL_RETURN_IF_ERROR(endpoint->Connect(meeting.addresses, setup.Names()));
  const bool spins = ShareOfCores(setup.world, ReadCores("")) >= 2;
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<FabricProgress> progress, FabricProgress::Start(std::move(endpoint), spins));
  std::unique_ptr<FabricCommunicator> made(new FabricCommunicator(setup, std::move(progress), meeting.writing));
  DISTILL_RETURN_IF_ERROR(made->progress_->Run([&] { return made->ring_.Open(); }));
  return made;
}

std::string FabricCommunicator::DescribeFabric() const {
  const FabricEndpoint& endpoint = progress_->endpoint();
  const size_t rails = endpoint.networks().size();
  return absl::StrCat("fabric: libfabric's provider ", endpoint.provider(), ", ", rails,
                      rails == 1 ? " rail: " : " rails: ", absl::StrJoin(endpoint.networks(), ", "),
                      writing_ == FabricWriting::kNone ? "" : "; finished blocks are written into registered memory");
}

void FabricCommunicator::Close() {
  if (progress_ == nullptr) return;
  (void)progress_->Run([&] {
    progress_->endpoint().Withdraw();
    ring_.Close();
    exchange_landing_.region = FabricRegion();
    calls_.regions()->Clear();
    return absl::OkStatus();
  });
  progress_.reset();
}

absl::Status FabricCommunicator::Execute(const CommCall& call) {
  if (IsPair(call.operation)) return ring_.Move(call);
  calls_.Begin(call);
  const CommAlgorithm algorithm = Choose(call);
  return algorithm == CommAlgorithm::kRing ? ring_.Run(call) : RunExchange(algorithm, call);
}

absl::Status FabricCommunicator::OnCallThread(absl::FunctionRef<absl::Status()> call) {
  return progress_->Run([&]() -> absl::Status {
    DISTILL_RETURN_IF_ERROR(calls_.Explain(progress_->broken(), "this rank and the others"));
    return call();
  });
}

absl::StatusOr<std::unique_ptr<CommMemory>> FabricCommunicator::AllocateHere(int64_t bytes) {
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommMemory> memory, work_.Allocate(bytes));
  return RegisterToo(std::move(memory));
}

absl::StatusOr<std::unique_ptr<CommMemory>> FabricCommunicator::RegisterToo(std::unique_ptr<CommMemory> memory) {
  DISTILL_RETURN_IF_ERROR(progress_->Run([&]() -> absl::Status {
    DISTILL_ASSIGN_OR_RETURN(memory, FabricRegions::Add(calls_.regions(), std::move(memory), progress_->endpoint()));
    return absl::OkStatus();
  }));
  return memory;
}

absl::StatusOr<std::unique_ptr<Communicator>> FabricCommunicator::DoSplit(const SplitPart& part) {
  return SplitFrom(*this, seed_, part.members, [](Setup setup) -> MadeCommunicator {
    return setup.world.world_size == 1 ? CreateAloneBackend() : CreateFabricCommunicator(std::move(setup));
  });
}

absl::StatusOr<std::unique_ptr<FabricCommunicator>> FabricCommunicator::Join(
    Setup setup, absl::StatusOr<std::unique_ptr<FabricEndpoint>> endpoint) {
  DISTILL_ASSIGN_OR_RETURN(const FabricMeeting meeting, MeetOnFabric(setup, endpoint));
  auto made = Create(setup, *std::move(endpoint), meeting);
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(made.status()));
  FabricCommunicator& fabric = **made;
  if (setup.world.rank == 0) LogInfo(fabric.DescribeFabric());
  fabric.calls_.Start(setup.rendezvous);
  const absl::Status met =
      Annotate(fabric.OnCallThread([&] { return fabric.ring_.Meet(); }), "connecting the ranks over the fabric");
  if (!met.ok()) setup.rendezvous->Announce(met);
  DISTILL_RETURN_IF_ERROR(met);
  return made;
}

MadeCommunicator CreateFabricCommunicator(Setup setup) {
  absl::StatusOr<std::unique_ptr<FabricEndpoint>> endpoint = OpenFabric(setup);
  return FabricCommunicator::Join(std::move(setup), std::move(endpoint));
}

CommAlgorithm FabricCommunicator::Choose(const CommCall& call) const {
  if (!HasAlgorithms(call.operation)) return CommAlgorithm::kRing;
  if (work_.on_device() && world_size() > kMostDeviceSources) return CommAlgorithm::kRing;
  return seed_.setup.tuning.Choose(call.operation, call.blocks(world_size()) * call.bytes(), layout_,
                                   /*flat_only=*/true);
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
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, calls_.Use(input, all * size));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to,
                           calls_.Use(call.output, call.output_blocks(world_size()) * call.bytes()));
  DISTILL_RETURN_IF_ERROR(calls_.Fit(exchange_landing_, std::max<int64_t>(plan.landing * size, 1)));
  const FabricRegion& landing = exchange_landing_.region;
  const Exchange::Call buffers = {.input = {from.data, &from.memory()},
                                  .result = {to.data, &to.memory()},
                                  .landing = {landing.data, &landing.memory()},
                                  .dtype = call.dtype,
                                  .op = call.op,
                                  .ranks = world_size(),
                                  .tag = calls_.tag()};
  const absl::Status status =
      exchange_.Run(plan, buffers, [this](int peer, bool receiving) { return calls_.Check(peer, receiving); });
  return calls_.End(status, "this rank and others");
}

}  // namespace distill
