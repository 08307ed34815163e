// The exchange over TCP: a star around rank 0.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/world/rendezvous.h"
#include "libdistill/world/socket.h"

namespace distill {

// At world.rendezvous; without a job secret at its port on loopback, so for the ranks of one host. Rank 0 listens on
// the socket that the launcher has bound for it (world/handed_socket.h), or else binds one.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Rendezvous>> CreateTcpRendezvous(const World& world,
                                                                              const Deadline& deadline);

// Where a job meets that was told otherwise than by world.rendezvous, which is then only what messages call the place.
struct MeetingPlace {
  std::string kind;              // what told the ranks
  Socket listener;               // rank 0
  std::vector<HostPort> places;  // the others: rank 0's addresses, tried in order
  NameLookup::Function resolve = &getaddrinfo;
};
[[nodiscard]] absl::StatusOr<std::unique_ptr<Rendezvous>> CreateTcpRendezvousAt(const World& world, MeetingPlace place,
                                                                                const Deadline& deadline);

}  // namespace distill
