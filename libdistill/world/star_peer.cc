#include "libdistill/world/star_peer.h"

#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace distill {

void StarPeer::Send() {
  if (left || outbox.empty()) return;
  absl::string_view rest = outbox;
  // Reading shows what became of a peer that takes nothing more.
  const bool sent = SendSome(socket, rest).ok();
  outbox.erase(0, sent ? outbox.size() - rest.size() : outbox.size());
}

void StarPeer::Drain() {
  shutdown(socket.fd(), SHUT_WR);
  for (auto some = ReceiveSome(socket, 1 << 16); some.ok() && !some->empty();) some = ReceiveSome(socket, 1 << 16);
}

absl::Status StarPeer::Silent(absl::Duration timeout) const {
  return absl::UnavailableError(absl::StrCat(name, " was lost: nothing heard from it for ",
                                             absl::FormatDuration(timeout),
                                             " (the process is stopped, or its host or the network to it is gone)"));
}

}  // namespace distill
