#include "libdistill/comm/create.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/setup.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/version.h"
#include "libdistill/world/framing.h"

namespace distill {
namespace {

constexpr std::array<absl::string_view, 5> kBackends = {"auto", "shm", "fabric", "mpi", "nccl"};

absl::Status CheckOptions(const CommunicatorOptions& options) {
  if (std::find(kBackends.begin(), kBackends.end(), options.backend) == kBackends.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("comm_backend is '", options.backend, "'; auto, shm, fabric, mpi and nccl are known"));
  }
  if (options.timeout <= absl::ZeroDuration()) return absl::InvalidArgumentError("comm_timeout must be positive");
  return absl::OkStatus();
}

// Learns who the others are; they must be of one build and want the same backend.
absl::Status Introduce(Setup& setup) {
  const std::string mine = PackStrings({setup.world.host, setup.world.host_id, setup.options.backend, Version()});
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> all, setup.Exchange(mine));
  setup.one_host = true;
  std::vector<std::string> first;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> card, UnpackStrings(all[rank]));
    if (card.size() != 4) return absl::FailedPreconditionError(absl::StrCat("rank ", rank, " runs another version"));
    if (rank == 0) first = card;
    setup.hosts.push_back(card[0]);
    setup.one_host = setup.one_host && card[1] == first[1];
    for (const auto& [index, what] : {std::pair<size_t, const char*>{3, "libdistill"}, {2, "comm_backend"}}) {
      if (card[index] == first[index]) continue;
      return absl::FailedPreconditionError(absl::StrCat(what, " differs: rank 0 on ", first[0], " has ", first[index],
                                                        ", rank ", rank, " on ", card[0], " has ", card[index]));
    }
  }
  return absl::OkStatus();
}

MadeCommunicator Make(const std::string& backend, Setup setup) {
  if (backend == "mpi") return CreateMpiCommunicator(std::move(setup));
  if (backend == "fabric") return CreateFabricCommunicator(std::move(setup));
  if (!setup.one_host) {
    return absl::InvalidArgumentError(
        absl::StrCat("comm_backend ", backend, " joins the ranks of one host, but rank 0 is on ", setup.hosts.front(),
                     " and others are elsewhere: use auto or fabric"));
  }
  if (backend == "nccl") return CreateNcclCommunicator(std::move(setup));
  return CreateShmCommunicator(std::move(setup));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> CreateCommunicator(const World& world,
                                                                 const CommunicatorOptions& options) {
  DISTILL_RETURN_IF_ERROR(CheckOptions(options));
  if (world.world_size == 1 && options.backend != "nccl") return CreateAloneCommunicator();
  const Deadline deadline = Deadline::After(options.timeout);
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<Rendezvous> rendezvous, CreateRendezvous(world, deadline));
  const std::string meeting(rendezvous->kind());
  Setup setup = {world, options, deadline, std::move(rendezvous), {}, false};
  DISTILL_RETURN_IF_ERROR(Introduce(setup));
  const std::string backend = options.backend != "auto" ? options.backend : setup.one_host ? "shm" : "fabric";
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> made, Make(backend, std::move(setup)));
  if (world.rank == 0) {
    LogInfo(absl::StrCat("collectives: ", world.world_size, " ranks over ", made->backend(), " (comm_backend ",
                         options.backend, "), met over ", meeting));
  }
  return made;
}

}  // namespace distill
