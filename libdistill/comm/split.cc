#include "libdistill/comm/split.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/comm/agree.h"
#include "libdistill/core/check.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/descriptors.h"
#include "libdistill/world/handshake.h"
#include "libdistill/world/socket.h"
#include "libdistill/world/tcp_rendezvous.h"

namespace distill {
namespace {

// Where rank 0 of a part waits for the others.
struct Place {
  Socket listener;  // on rank 0 of the part
  std::string rendezvous;
};

absl::StatusOr<Place> Open(const SplitSeed& seed, size_t ranks) {
  DISTILL_RETURN_IF_ERROR(PrepareDescriptors(static_cast<int>(ranks), seed.setup.world.host).status());
  DISTILL_CHECK(!seed.secret.empty(), "a rendezvous of several ranks has no secret for its parts");
  const std::string host = seed.address.empty() ? seed.setup.world.host : seed.address;
  Place place;
  DISTILL_ASSIGN_OR_RETURN(place.listener, Listen({host, "0"}));
  const bool v6 = host.find(':') != std::string::npos;
  place.rendezvous = absl::StrCat(v6 ? "[" : "", host, v6 ? "]:" : ":", LocalPort(place.listener));
  return place;
}

// Every rank of the parent takes part, whichever part it is in; each learns the place of its own.
absl::StatusOr<Place> Announce(Communicator& parent, const SplitSeed& seed, const std::vector<int>& members) {
  absl::StatusOr<Place> mine = Place();
  if (members.size() > 1 && members[0] == parent.rank()) mine = Open(seed, members.size());
  DISTILL_RETURN_IF_ERROR(Agree(parent, mine.status()));
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> all, GatherTexts(parent, mine->rendezvous));
  if (!members.empty()) mine->rendezvous = std::move(all[static_cast<size_t>(members[0])]);
  return mine;
}

absl::StatusOr<std::unique_ptr<Rendezvous>> Meet(const Setup& setup, Socket listener) {
  if (setup.world.world_size == 1) return CreateRendezvous(setup.world, setup.deadline);
  MeetingPlace place = {"tcp", std::move(listener), {}};
  if (setup.world.rank != 0) {
    DISTILL_ASSIGN_OR_RETURN(place.places.emplace_back(), ParseHostPort(setup.world.rendezvous));
  }
  return CreateTcpRendezvousAt(setup.world, std::move(place), setup.deadline);
}

}  // namespace

MadeCommunicator SplitFrom(Communicator& parent, const SplitSeed& seed, const std::vector<int>& members,
                           absl::FunctionRef<MadeCommunicator(Setup)> create) {
  DISTILL_ASSIGN_OR_RETURN(Place place, Announce(parent, seed, members));
  if (members.empty()) return nullptr;
  const CommunicatorOptions& options = seed.setup.options;
  Setup setup = seed.setup.Part(members);
  setup.deadline = Deadline::After(options.timeout);
  setup.world.rendezvous = place.rendezvous;
  // The places that parts meet at differ, and so do their secrets: who joins the wrong one is refused.
  setup.world.job_secret =
      DerivePartSecret(seed.secret, absl::StrCat(place.rendezvous, "/", absl::StrJoin(members, ",")));
  setup.one_host =
      std::count(setup.host_ids.begin(), setup.host_ids.end(), setup.host_ids[0]) == setup.world.world_size;
  DISTILL_ASSIGN_OR_RETURN(const std::shared_ptr<Rendezvous> rendezvous, Meet(setup, std::move(place.listener)));
  if (const std::shared_ptr<BusyRanks> busy = parent.busy_ranks()) rendezvous->ShareBusy(busy);
  rendezvous->StartHeartbeat(options.heartbeat_timeout);
  setup.rendezvous = rendezvous;
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommBackend> made, create(std::move(setup)));
  DISTILL_RETURN_IF_ERROR(made->Attach(rendezvous, options.timeout, options.abort_grace));
  if (options.debug) made->CompareCallsFirst();
  return made;
}

}  // namespace distill
