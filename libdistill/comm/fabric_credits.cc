#include "libdistill/comm/fabric_credits.h"

#include "libdistill/comm/fabric_tags.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::StatusOr<CreditStep> FabricCredits::Receive(int peer) {
  Peer& to = at(peer);
  const bool came = to.waiting && to.incoming.done;
  if (came) {
    DISTILL_RETURN_IF_ERROR(to.incoming.status);
    to.waiting = false;
    to.credited += kEvery;
  }
  if (to.waiting || to.sent - to.credited < kEvery) return CreditStep{.moved = came};
  const uint64_t tag = FabricCreditTag(static_cast<uint64_t>(to.credited / kEvery + 1), peer);
  DISTILL_ASSIGN_OR_RETURN(to.waiting, endpoint_->Receive(peer, tag, bytes_, 1, *memory_, &to.incoming));
  return CreditStep{.moved = came || to.waiting, .refused = !to.waiting};
}

absl::StatusOr<CreditStep> FabricCredits::Send(int peer, int64_t last) {
  Peer& from = at(peer);
  const int64_t next = from.told + kEvery;
  if (from.taken < next || last <= next + kEvery || !from.outgoing.done) return CreditStep();
  DISTILL_RETURN_IF_ERROR(from.outgoing.status);
  const uint64_t tag = FabricCreditTag(static_cast<uint64_t>(next / kEvery), rank_);
  DISTILL_ASSIGN_OR_RETURN(const bool posted, endpoint_->Send(peer, tag, bytes_ + 1, 1, *memory_, &from.outgoing));
  if (posted) from.told = next;
  return CreditStep{.moved = posted, .refused = !posted};
}

}  // namespace distill
