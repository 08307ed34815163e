#include "libdistill/world/rendezvous.h"

#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/backoff.h"
#include "libdistill/world/framing.h"
#include "libdistill/world/handshake.h"
#include "libdistill/world/mpi_runtime.h"
#include "libdistill/world/tcp_rendezvous.h"

namespace distill {
namespace {

class LocalRendezvous : public Rendezvous {
 public:
  absl::string_view kind() const override { return "local"; }
  absl::StatusOr<std::vector<std::string>> AllGather(const std::string& blob, const Deadline&) override {
    return std::vector<std::string>{blob};
  }
};

class MpiExchange {
 public:
  explicit MpiExchange(const World& world) : world_(world) {}

  // A communicator of its own, so that its messages never meet another's.
  absl::Status Meet(const Deadline& deadline) {
    DISTILL_RETURN_IF_ERROR(StartMpi(world_, deadline));
    return Await("MPI_Comm_idup", deadline,
                 [this](MPI_Request* request) { return MPI_Comm_idup(MPI_COMM_WORLD, &own_->comm, request); });
  }

  // Every rank gets rank 0's text.
  absl::StatusOr<std::string> FromRankZero(std::string text, const Deadline& deadline) {
    own_->length = static_cast<int>(text.size());
    DISTILL_RETURN_IF_ERROR(Await("the exchange of a length", deadline, [this](MPI_Request* request) {
      return MPI_Ibcast(&own_->length, 1, MPI_INT, 0, own_->comm, request);
    }));
    own_->text = std::move(text);
    own_->text.resize(static_cast<size_t>(own_->length));
    DISTILL_RETURN_IF_ERROR(Await("the exchange", deadline, [this](MPI_Request* request) {
      return MPI_Ibcast(own_->text.data(), own_->length, MPI_BYTE, 0, own_->comm, request);
    }));
    return own_->text;
  }

 private:
  // What MPI writes to.
  struct Own {
    MPI_Comm comm = MPI_COMM_NULL;  // left to MPI_Finalize: freeing it is a collective call
    int length = 0;
    std::string text;
  };

  absl::Status Await(const char* what, const Deadline& deadline, absl::FunctionRef<int(MPI_Request*)> start) {
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    absl::Status status = CallMpi(what, [&] { return start(&request); });
    for (Backoff backoff; status.ok() && !done; backoff.Pause()) {
      status = CallMpi(what, [&] { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); });
      if (!status.ok() || done || !backoff.slow() || !deadline.Passed()) continue;
      status = deadline.Error(absl::StrCat(what, " over MPI: some rank of ", world_.world_size, " never came; it"));
    }
    if (!status.ok()) AbandonMpi(status, own_);
    return status;
  }

  const World world_;
  const std::shared_ptr<Own> own_ = std::make_shared<Own>();
};

bool OnOneHost(const World& world) { return world.local_size == world.world_size; }

// This host's name and its numeric addresses, but for loopback and link-local ones, which others cannot reach.
std::vector<std::string> AddressesOf(const World& world) {
  if (OnOneHost(world)) return {"127.0.0.1"};
  std::vector<std::string> found = {world.host};
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool usable = entry->ifa_addr != nullptr && (entry->ifa_flags & IFF_UP) && !(entry->ifa_flags & IFF_LOOPBACK);
    if (!usable || (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6)) continue;
    const socklen_t size = entry->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char host[NI_MAXHOST] = {};
    if (getnameinfo(entry->ifa_addr, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    if (!absl::StartsWith(host, "fe80:")) found.push_back(host);
  }
  freeifaddrs(list);
  return found;
}

// What rank 0 tells: nothing, host name, secret, port, addresses. Or only why it cannot.
absl::StatusOr<std::string> Invite(const World& world, Socket& listener) {
  DISTILL_ASSIGN_OR_RETURN(listener, Listen({OnOneHost(world) ? "127.0.0.1" : "", "0"}));
  std::vector<std::string> fields = {"", world.host, MakeNonce(), LocalPort(listener)};
  for (std::string& address : AddressesOf(world)) fields.push_back(std::move(address));
  return PackStrings(fields);
}

// For jobs that mpirun started: MPI hands out rank 0's addresses and a job secret that rank 0 makes, and is not used
// again: the ranks then meet, and watch one another, over TCP.
absl::StatusOr<std::unique_ptr<Rendezvous>> CreateMpiRendezvous(const World& world, const Deadline& deadline) {
  MpiExchange exchange(world);
  DISTILL_RETURN_IF_ERROR(exchange.Meet(deadline));
  MeetingPlace meeting = {"mpi", Socket(), {}};
  std::string mine;
  if (world.rank == 0) {
    const absl::StatusOr<std::string> invitation = Invite(world, meeting.listener);
    mine = invitation.ok() ? *invitation : PackStrings({EncodeStatus(invitation.status())});
  }
  DISTILL_ASSIGN_OR_RETURN(const std::string told, exchange.FromRankZero(std::move(mine), deadline));
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> fields, UnpackStrings(told));
  if (fields.size() < 5) return Annotate(DecodeStatus(fields.at(0)), "rank 0 opens a port for the job");
  World met = world;
  met.job_secret = fields[2];
  met.rendezvous = absl::StrCat(fields[1], ":", fields[3]);
  for (size_t i = 4; i < fields.size(); ++i) meeting.places.push_back({fields[i], fields[3]});
  return CreateTcpRendezvousAt(met, std::move(meeting), deadline);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Rendezvous>> CreateRendezvous(const World& world, const Deadline& deadline) {
  if (world.world_size == 1) return std::make_unique<LocalRendezvous>();
  if (world.rendezvous.empty()) return CreateMpiRendezvous(world, deadline);
  return CreateTcpRendezvous(world, deadline);
}

}  // namespace distill
