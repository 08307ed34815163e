// The port that ranks meet at, from the launcher's hands into rank 0's: the launcher binds it, and rank 0 inherits the
// socket and listens on it. So until rank 0 listens the port is nobody's who asks for any free one: the system neither
// gives it to a socket that is bound to port 0, nor to a connection that goes out. Nor can a process bind this very
// port, unless it sets SO_REUSEADDR, as servers do: that is how rank 0 binds it where the descriptor was lost on the
// way (below). If somebody listens there first, rank 0's error says that the port is taken.
// Only distillrun on one host can do this; where rank 0 was started by another launcher, or is on another host, the
// port is one that was agreed on, and rank 0 binds it itself.
#pragma once

#include "absl/status/statusor.h"
#include "libdistill/world/socket.h"

namespace distill {

// Names the socket as "descriptor:inode", in rank 0's environment alone.
inline constexpr char kRendezvousSocket[] = "DISTILL_RENDEZVOUS_SOCKET";

// For the launcher: bound to a free port of 127.0.0.1, and not listening. A program that keeps its descriptors from the
// rank that it starts (Python's subprocess) therefore does no harm: the rank can bind the same port. Were it listening
// already, the other ranks would wait at that program's socket, where nobody answers, and rank 0 could not bind.
[[nodiscard]] absl::StatusOr<Socket> BindFreePort();
// In a child that is about to become rank 0.
void HandOver(const Socket& socket);

// In rank 0: listening, and this process's own. Not open where none was handed over, or what the environment names is
// not a socket bound to `place`: it was closed on the way, or is another program's.
[[nodiscard]] Socket TakeHandedSocket(const HostPort& place);

}  // namespace distill
