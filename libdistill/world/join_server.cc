#include "libdistill/world/join_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/process.h"
#include "libdistill/world/star_peer.h"

namespace distill {
namespace {

// A rank of the job answers within milliseconds; this only has to outlast a busy machine.
constexpr absl::Duration kHandshakeTime = absl::Seconds(5);
// Where guests wait for a place: a rank says hello as it connects, and its proof when it has rank 0's nonce.
constexpr absl::Duration kTimeToGreet = absl::Milliseconds(50);
constexpr absl::Duration kTimeToProve = absl::Seconds(1);
constexpr int kMaxRefusalsLogged = 3;

}  // namespace

JoinServer::JoinServer(Socket listener, int world_size, std::string secret, size_t max_guests)
    : listener_(std::move(listener)),
      spare_(fcntl(listener_.fd(), F_DUPFD_CLOEXEC, 0)),
      world_size_(world_size),
      secret_(std::move(secret)),
      max_guests_(max_guests),
      members_(static_cast<size_t>(world_size)) {}

// A descriptor of it may be open elsewhere: in a script that started this rank, in a child.
JoinServer::~JoinServer() { shutdown(listener_.fd(), SHUT_RDWR); }

void JoinServer::Refuse(absl::Status error) {
  refusal_ = std::move(error);
  LogWarning(absl::StrCat("every rank is told: ", std::string(refusal_.message())));
  for (Member& member : members_) {
    if (member.socket.open()) Dismiss(member);
  }
}

// The error is proven, as every frame is, and the joiner reads it before the end of the stream.
void JoinServer::Dismiss(Member& member) const {
  StarPeer peer(0, "", std::move(member.socket), member.keys, kMaxBlobBytes);
  peer.outbox.Add(MakeMessage(FrameKind::kError, 0, EncodeStatus(refusal_)));
  peer.Drain();
  member.socket = Socket();
  member.dismissed = true;
}

absl::Status JoinServer::Run(const Deadline& deadline) {
  while (joined_ < world_size_ - 1) {
    if (deadline.Passed()) return TimeOut(deadline);
    WaitForEvents(deadline);
    AcceptWaiting();
    DISTILL_RETURN_IF_ERROR(ServeGuests());
  }
  return refusal_;
}

absl::Status JoinServer::TimeOut(const Deadline& deadline) const {
  if (!refusal_.ok()) return refusal_;
  std::vector<int> missing;
  for (int rank = 1; rank < world_size_; ++rank) {
    if (!members_[static_cast<size_t>(rank)].socket.open()) missing.push_back(rank);
  }
  const std::string unproven =
      refused_ == 0 ? "" : absl::StrCat(" (", refused_, " connections did not prove the job secret)");
  const std::string unaccepted =
      accept_error_ == 0 ? ""
                         : absl::StrCat(" (no connection could be accepted here: ", std::strerror(accept_error_),
                                        DescriptorRemedy(accept_error_), ")");
  return deadline.Error(
      absl::StrCat("waiting for ", DescribeRanks(missing), " of ", world_size_, " to join", unproven, unaccepted));
}

void JoinServer::WaitForEvents(const Deadline& deadline) {
  // Where all places are taken a look now and then shows who may give up its own.
  // So it is where none can be accepted: what is not taken stays ready, and poll would not wait.
  const bool accepts = accept_error_ == 0 && guests_.size() < Places();
  std::vector<pollfd> entries = {{accepts ? listener_.fd() : -1, POLLIN, 0}};
  for (const Guest& guest : guests_) entries.push_back({guest.socket.fd(), POLLIN, 0});
  constexpr int kTickMilliseconds = 200;  // for the guests' own deadlines
  constexpr int kFullTickMilliseconds = 10;
  const int tick = guests_.size() < Places() ? kTickMilliseconds : kFullTickMilliseconds;
  const int left = deadline.PollMilliseconds();
  poll(entries.data(), entries.size(), left < 0 ? tick : std::min(left, tick));
}

// For guests. Those that are ranks use what is kept for ranks, so however many of them come together, and however
// slowly a busy machine lets them speak, they do not push out one another.
size_t JoinServer::Places() const {
  const size_t missing = static_cast<size_t>(world_size_ - 1 - joined_);
  return refusal_.ok() && missing > 0 ? max_guests_ + missing - 1 : max_guests_;
}

// For one more guest. Where all places are taken the oldest guest that had time to speak gives up its own: first of
// those that have said nothing, as a rank says hello at once. So strangers keep nobody out for long.
bool JoinServer::MakeRoom() {
  if (guests_.size() < Places()) return true;
  pollfd waiting = {listener_.fd(), POLLIN, 0};
  if (poll(&waiting, 1, 0) != 1) return false;
  const auto may_go = [](bool greeted) {
    return [greeted](const Guest& guest) {
      return guest.greeted == greeted && (greeted ? guest.must_have_proved : guest.must_have_greeted).Passed();
    };
  };
  auto dropped = std::find_if(guests_.begin(), guests_.end(), may_go(false));
  if (dropped == guests_.end()) dropped = std::find_if(guests_.begin(), guests_.end(), may_go(true));
  if (dropped == guests_.end()) return false;
  guests_.erase(dropped);
  return true;
}

// Where descriptors are lacking, guests become members, or are dropped: only where there is no guest will none become
// free. The ranks are then told, one at a time, with the one that was kept for this. What else fails (ENOBUFS, a
// firewall's EPERM) may be over at the next look; it is named if it is not.
void JoinServer::AcceptWaiting() {
  accept_error_ = 0;
  while (MakeRoom()) {
    Socket socket = AcceptOne(listener_);
    if (!socket.open()) {
      const int error = errno;
      if (error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ECONNABORTED) return;
      accept_error_ = error;
      if ((error == EMFILE || error == ENFILE) && guests_.empty()) LackDescriptors(error);
      return;
    }
    guests_.push_back({std::move(socket),
                       Deadline::After(kHandshakeTime),
                       Deadline::After(kTimeToGreet),
                       Deadline::After(kTimeToProve),
                       "",
                       false,
                       {}});
  }
}

void JoinServer::LackDescriptors(int error) {
  if (!refusal_.ok()) return;  // not even one: ranks wait until there is
  accept_error_ = 0;
  spare_ = Socket();
  Refuse(absl::ResourceExhaustedError(absl::StrCat("rank 0 cannot accept rank number ", joined_ + 1, " of ",
                                                   world_size_ - 1, " that join: ", std::strerror(error),
                                                   DescriptorRemedy(error))));
}

absl::Status JoinServer::ServeGuests() {
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    DISTILL_ASSIGN_OR_RETURN(const Step step, Serve(*guest));
    const bool drop = step == Step::kDrop || guest->deadline.Passed();
    guest = drop ? guests_.erase(guest) : std::next(guest);
  }
  return absl::OkStatus();
}

absl::StatusOr<JoinServer::Step> JoinServer::Serve(Guest& guest) {
  const size_t wanted = guest.greeted ? kProofBytes : kHelloBytes;
  const absl::StatusOr<std::string> some = ReceiveSome(guest.socket, wanted - guest.buffer.size());
  if (!some.ok()) return Step::kDrop;
  guest.buffer += *some;
  if (guest.buffer.size() < wanted) return Step::kWait;
  return guest.greeted ? Judge(guest) : Greet(guest);
}

JoinServer::Step JoinServer::Greet(Guest& guest) {
  const std::optional<std::string> nonce = DecodeHello(guest.buffer);
  if (!nonce) return Step::kDrop;
  guest.nonces = {*nonce, MakeNonce()};
  guest.greeted = true;
  guest.buffer.clear();
  const absl::Status sent =
      SendAll(guest.socket, EncodeHello(guest.nonces.root), Deadline::After(absl::ZeroDuration()));
  return sent.ok() ? Step::kWait : Step::kDrop;
}

absl::StatusOr<JoinServer::Step> JoinServer::Judge(Guest& guest) {
  const auto answer = [&](Verdict verdict) {
    return SendAll(guest.socket, EncodeVerdict(secret_, guest.nonces, verdict), Deadline::After(absl::ZeroDuration()));
  };
  const std::optional<JoinRequest> request = CheckProof(secret_, guest.nonces, guest.buffer);
  const std::string from = RemoteAddress(guest.socket);
  if (!request) {
    if (++refused_ <= kMaxRefusalsLogged)
      LogWarning(absl::StrCat("refused ", from, ": it does not know the job secret"));
    answer(Verdict::kWrongSecret).IgnoreError();
    return Step::kDrop;
  }
  const std::string who = absl::StrCat("rank ", request->rank, " on ", request->host, " (", from, ")");
  if (request->world_size != static_cast<uint32_t>(world_size_)) {
    answer(Verdict::kOtherWorldSize).IgnoreError();
    return absl::InvalidArgumentError(
        absl::StrCat(who, " belongs to a job of ", request->world_size, " ranks, this one has ", world_size_));
  }
  if (request->rank == 0 || request->rank >= request->world_size || Taken(request->rank)) {
    answer(Verdict::kRankTaken).IgnoreError();
    return absl::InvalidArgumentError(
        absl::StrCat(who, " joined, but this rank is taken: two processes have the same rank"));
  }
  if (!answer(Verdict::kWelcome).ok()) return Step::kDrop;
  Member& member = members_[request->rank];
  if (!member.socket.open() && !member.dismissed) ++joined_;
  member = {std::move(guest.socket), request->host, DeriveFrameKeys(secret_, guest.nonces, /*of_root=*/true)};
  if (!refusal_.ok()) Dismiss(member);
  return Step::kDrop;
}

// A rank whose first connection broke may come again.
bool JoinServer::Taken(uint32_t rank) const {
  const Socket& socket = members_[rank].socket;
  return socket.open() && StillOpen(socket);
}

std::string DescribeRanks(const std::vector<int>& ranks) {
  constexpr size_t kMaxNamed = 16;
  if (ranks.size() <= kMaxNamed)
    return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
  const std::vector<int> first(ranks.begin(), ranks.begin() + kMaxNamed);
  return absl::StrCat("ranks ", absl::StrJoin(first, ", "), " and ", ranks.size() - kMaxNamed, " more");
}

}  // namespace distill
