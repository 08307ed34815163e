// Calls over libfabric, between any ranks: how its endpoint is opened, met by and closed, and the thread that it has.
#include "libdistill/comm/fabric_communicator.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/cores.h"

namespace distill {

absl::StatusOr<std::unique_ptr<FabricCommunicator>> FabricCommunicator::Create(const Setup& setup,
                                                                               std::unique_ptr<FabricEndpoint> endpoint,
                                                                               const FabricMeeting& meeting) {
  DISTILL_RETURN_IF_ERROR(endpoint->Connect(meeting.addresses, setup.Names()));
  const bool spins = ShareOfCores(setup.world, ReadCores("")) >= 2;
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<FabricProgress> progress, FabricProgress::Start(std::move(endpoint), spins));
  std::unique_ptr<FabricCommunicator> made(new FabricCommunicator(setup, std::move(progress), meeting.writing));
  DISTILL_RETURN_IF_ERROR(made->progress_->Run([&] { return made->collectives_.Open(); }));
  return made;
}

std::string FabricCommunicator::DescribeFabric() const {
  const FabricEndpoint& endpoint = progress_->endpoint();
  const size_t rails = endpoint.networks().size();
  return absl::StrCat("fabric: libfabric's provider ", endpoint.provider(), ", ", rails,
                      rails == 1 ? " rail: " : " rails: ", absl::StrJoin(endpoint.networks(), ", "),
                      writing_ == FabricWriting::kNone ? "" : "; finished blocks are written into registered memory",
                      endpoint.is_shared() ? "; shared with other communicators" : "");
}

void FabricCommunicator::Close() {
  if (progress_ == nullptr) return;
  (void)progress_->Run([&] {
    progress_->endpoint().Withdraw();
    collectives_.Close();
    calls_.regions()->Clear();
    return absl::OkStatus();
  });
  progress_.reset();
}

absl::Status FabricCommunicator::Execute(const CommCall& call) { return collectives_.Run(call); }

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
  setup.tuning.UseWhereNoneWasGiven(meeting.costs.table, meeting.costs.name);
  auto made = Create(setup, *std::move(endpoint), meeting);
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(made.status()));
  FabricCommunicator& fabric = **made;
  if (setup.world.rank == 0) LogInfo(fabric.DescribeFabric());
  fabric.calls_.Start(setup.rendezvous);
  const absl::Status met =
      Annotate(fabric.OnCallThread([&] { return fabric.collectives_.Meet(); }), "connecting the ranks over the fabric");
  if (!met.ok()) setup.rendezvous->Announce(met);
  DISTILL_RETURN_IF_ERROR(met);
  return made;
}

MadeCommunicator CreateFabricCommunicator(Setup setup) {
  absl::StatusOr<std::unique_ptr<FabricEndpoint>> endpoint = OpenFabric(setup);
  return FabricCommunicator::Join(std::move(setup), std::move(endpoint));
}

}  // namespace distill
