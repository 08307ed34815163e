// The port that ranks meet at, from the launcher's hands into rank 0's: the launcher binds it, and rank 0 inherits the
// socket and listens on it. So nobody else gets the port between the moment when it is chosen and the one when rank 0
// listens. Only distillrun on one host can do this; where rank 0 was started by another launcher, or is on another
// host, the port is one that was agreed on, and rank 0 binds it itself.
#pragma once

#include "absl/status/statusor.h"
#include "libdistill/world/socket.h"

namespace distill {

// Names the socket as "descriptor:inode", in rank 0's environment alone.
inline constexpr char kRendezvousSocket[] = "DISTILL_RENDEZVOUS_SOCKET";

// For the launcher: bound to a free port of 127.0.0.1, and not listening. A program that does not pass its descriptors
// on to the rank below it (Python's subprocess) therefore does no harm: the rank can bind the same port.
[[nodiscard]] absl::StatusOr<Socket> BindFreePort();
// In a child that is about to become rank 0.
void HandOver(const Socket& socket);

// In rank 0: listening, and this process's own. Not open where none was handed over, or what the environment names is
// not a socket bound to `place`: it was closed on the way, or is another program's.
[[nodiscard]] Socket TakeHandedSocket(const HostPort& place);

}  // namespace distill
