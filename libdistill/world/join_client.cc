#include "libdistill/world/join_client.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/handshake.h"

namespace distill {
namespace {

// How long one attempt may hang on a host that drops packets, or on a stranger that never answers.
constexpr absl::Duration kAttemptTime = absl::Seconds(10);
constexpr absl::Duration kFirstPause = absl::Milliseconds(10);
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);

absl::Status Explain(const World& world, std::optional<Verdict> verdict) {
  if (!verdict) return absl::PermissionDeniedError("the process that answered does not know the job secret");
  switch (*verdict) {
    case Verdict::kWelcome:
      return absl::OkStatus();
    case Verdict::kOtherWorldSize:
      return absl::InvalidArgumentError(absl::StrCat("its job has another number of ranks than ", world.world_size));
    case Verdict::kRankTaken:
      return absl::InvalidArgumentError(absl::StrCat("another process is rank ", world.rank, " already"));
    case Verdict::kWrongSecret:
      break;
  }
  return absl::PermissionDeniedError(
      "it refused the job secret: DISTILL_JOB_SECRET differs between the ranks, or another job has this port");
}

absl::StatusOr<Socket> JoinOnce(const World& world, const HostPort& place, const Deadline& deadline) {
  DISTILL_ASSIGN_OR_RETURN(Socket socket, Connect(place, deadline));
  Nonces nonces;
  nonces.joiner = MakeNonce();
  DISTILL_RETURN_IF_ERROR(SendAll(socket, EncodeHello(nonces.joiner), deadline));
  DISTILL_ASSIGN_OR_RETURN(const std::string hello, ReceiveAll(socket, kHelloBytes, deadline));
  const std::optional<std::string> nonce = DecodeHello(hello);
  if (!nonce) return absl::UnavailableError("something that is no libdistill of this version answered");
  nonces.root = *nonce;
  const JoinRequest request = {static_cast<uint32_t>(world.rank), static_cast<uint32_t>(world.world_size), world.host};
  DISTILL_RETURN_IF_ERROR(SendAll(socket, EncodeProof(world.job_secret, nonces, request), deadline));
  DISTILL_ASSIGN_OR_RETURN(const std::string verdict, ReceiveAll(socket, kVerdictBytes, deadline));
  DISTILL_RETURN_IF_ERROR(Explain(world, CheckVerdict(world.job_secret, nonces, verdict)));
  return socket;
}

}  // namespace

absl::StatusOr<Socket> JoinRankZero(const World& world, const std::vector<HostPort>& places, const Deadline& deadline) {
  const std::string where =
      absl::StrCat("rank ", world.rank, " on ", world.host, " joins rank 0 at ", world.rendezvous);
  absl::Duration pause = kFirstPause;
  for (size_t attempt = 0;; ++attempt) {
    const HostPort& place = places[attempt % places.size()];
    absl::StatusOr<Socket> socket = JoinOnce(world, place, Deadline::After(std::min(kAttemptTime, deadline.Left())));
    if (socket.ok()) return socket;
    if (!absl::IsUnavailable(socket.status()) && !absl::IsDeadlineExceeded(socket.status())) {
      return Annotate(socket.status(), where);
    }
    if (deadline.Left() <= pause) {
      return deadline.Error(absl::StrCat(where, " (last attempt: ", socket.status().message(),
                                         "; is rank 0 running, and is this port reachable?)"));
    }
    if ((attempt + 1) % places.size() != 0) continue;
    absl::SleepFor(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace distill
