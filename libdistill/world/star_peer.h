// One connection of a star, as its thread serves it.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libdistill/core/deadline.h"
#include "libdistill/world/busy_ranks.h"
#include "libdistill/world/framing.h"
#include "libdistill/world/outbox.h"
#include "libdistill/world/rendezvous.h"
#include "libdistill/world/socket.h"

namespace distill {

struct StarPeer {
  StarPeer(int rank, std::string name, Socket socket, FrameKeys keys, size_t max_payload)
      : rank(rank),
        name(std::move(name)),
        socket(std::move(socket)),
        reader(max_payload, std::move(keys.receive)),
        outbox(std::move(keys.send)) {}

  // What the kernel takes at once of the outbox is sent, no more, and what has come is thrown away: a socket that is
  // closed with unread bytes resets the connection, and what was sent last might be lost with it.
  void Drain() {
    for (auto sent = outbox.Send(socket); sent.ok() && *sent > 0;) sent = outbox.Send(socket);
    shutdown(socket.fd(), SHUT_WR);
    for (auto some = ReceiveSome(socket, 1 << 16); some.ok() && !some->empty();) some = ReceiveSome(socket, 1 << 16);
  }
  // Unavailable: it has been silent for so long.
  absl::Status Silent(absl::Duration timeout) const {
    return absl::UnavailableError(absl::StrCat(name, " was lost: nothing heard from it for ",
                                               absl::FormatDuration(timeout),
                                               " (the process is stopped, or its host or the network to it is gone)"));
  }

  int rank;
  std::string name;  // "rank 2 on host-b"
  Socket socket;
  FrameReader reader;
  std::optional<Frame> waiting;  // for its exchange; a peer sends no second one before the first was taken
  Outbox outbox;
  bool waits_to_send = false;             // until the kernel takes more of the outbox
  Deadline patience = Deadline::Never();  // renewed by whatever the peer sends
  bool left = false;
  std::vector<CallView> calls;  // its last ones
  bool heard_since_late = false;
  std::vector<BusyRank> busy;  // what rank 0 has heard that it does: one, or none
};

}  // namespace distill
