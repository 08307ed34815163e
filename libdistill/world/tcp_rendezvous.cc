#include "libdistill/world/tcp_rendezvous.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/descriptors.h"
#include "libdistill/world/framing.h"
#include "libdistill/world/handed_socket.h"
#include "libdistill/world/handshake.h"
#include "libdistill/world/join_server.h"
#include "libdistill/world/star.h"

namespace distill {
namespace {

// Rank 0's deadline passes first, so that it can still tell the others which rank was missing.
constexpr absl::Duration kGrace = absl::Seconds(2);

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

// A socket that rank 0 has accepted as this rank's.
struct Joined {
  Socket socket;
  FrameKeys keys;
};

absl::StatusOr<Joined> JoinOnce(const World& world, const HostPort& place, NameLookup& names,
                                const Deadline& deadline) {
  DISTILL_ASSIGN_OR_RETURN(Socket socket, Connect(place, deadline, names));
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
  return Joined{std::move(socket), DeriveFrameKeys(world.job_secret, nonces, /*of_root=*/false)};
}

// What a joiner has met so far, and whether it may still hope.
//
// Who does not prove the job secret may be anybody: another job's rank 0 at one of several addresses, or a stranger who
// took the port for a moment. So that answer alone ends nothing. But ranks whose secrets do differ meet nothing else,
// and should not wait for the deadline: it ends a joiner once every place has given it in each of the last rounds, and
// nobody has given another answer for a tenth of the joiner's time, 30 s at most: so long a stranger would have to
// stay.
class Attempts {
 public:
  Attempts(size_t places, const Deadline& deadline)
      : places_(places), patience_(std::min(kLongestPatience, deadline.Left() / 10)) {}

  // OK: try again.
  absl::Status Note(absl::Status failure, const HostPort& place) {
    last_ = std::move(failure);
    if (absl::IsPermissionDenied(last_)) {
      refusal_ = Annotate(last_, absl::StrCat(place.host, ":", place.port));
      if (refusals_in_a_row_++ == 0) patient_until_ = Deadline::After(patience_);
      return refusals_in_a_row_ < kRounds * places_ || !patient_until_.Passed() ? absl::OkStatus() : refusal_;
    }
    refusals_in_a_row_ = 0;
    return absl::IsUnavailable(last_) || absl::IsDeadlineExceeded(last_) ? absl::OkStatus() : last_;
  }
  // For a joiner whose time is over. PermissionDenied where somebody had answered, who did not prove the secret.
  absl::Status Error(const Deadline& deadline, absl::string_view where) const {
    if (!refusal_.ok()) {
      return Annotate(refusal_,
                      absl::StrCat(deadline.Error(where).message(), " (last attempt: ", last_.message(), ")"));
    }
    return deadline.Error(
        absl::StrCat(where, " (last attempt: ", last_.message(), "; is rank 0 running, and is this port reachable?)"));
  }

 private:
  static constexpr size_t kRounds = 10;
  static constexpr absl::Duration kLongestPatience = absl::Seconds(30);

  const size_t places_;
  const absl::Duration patience_;
  size_t refusals_in_a_row_ = 0;
  Deadline patient_until_ = Deadline::Never();
  absl::Status refusal_;  // the latest
  absl::Status last_;
};

// Connects to rank 0 at one of the places, however often it takes until the deadline, and proves the job secret both
// ways. PermissionDenied: the secrets differ; InvalidArgument: the rank is taken or the world sizes differ;
// DeadlineExceeded: with what the last attempt met.
absl::StatusOr<Joined> JoinRankZero(const World& world, const MeetingPlace& meeting, const Deadline& deadline) {
  const std::string where =
      absl::StrCat("rank ", world.rank, " on ", world.host, " joins rank 0 at ", world.rendezvous);
  const std::vector<HostPort>& places = meeting.places;
  NameLookup names(meeting.resolve);
  Attempts attempts(places.size(), deadline);
  absl::Duration pause = kFirstPause;
  for (size_t attempt = 0;; ++attempt) {
    const HostPort& place = places[attempt % places.size()];
    absl::StatusOr<Joined> joined =
        JoinOnce(world, place, names, Deadline::After(std::min(kAttemptTime, deadline.Left())));
    if (joined.ok()) return joined;
    const absl::Status final_error = attempts.Note(joined.status(), place);
    if (!final_error.ok()) return Annotate(final_error, where);
    if (deadline.Left() <= pause) return attempts.Error(deadline, where);
    if ((attempt + 1) % places.size() != 0) continue;
    absl::SleepFor(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

class TcpRendezvous : public Rendezvous {
 public:
  TcpRendezvous(const World& world, std::string kind)
      : world_(world), kind_(std::move(kind)), secret_(world.job_secret), star_(world, world.rendezvous, busy()) {}

  absl::string_view kind() const override { return kind_; }
  absl::Status Host(Socket listener, const Deadline& deadline);
  absl::Status Join(const MeetingPlace& meeting, const Deadline& deadline);
  absl::StatusOr<std::vector<std::string>> AllGather(const std::string& blob, const Deadline& deadline) override;
  void StartHeartbeat(absl::Duration timeout) override { star_.StartHeartbeat(timeout); }
  void CompareCalls(std::function<std::vector<CallView>()> last_calls) override {
    star_.CompareCalls(std::move(last_calls));
  }
  absl::Duration ReportLate(int64_t call, absl::Duration allowed) override { return star_.ReportLate(call, allowed); }
  absl::Status CheckPeers() override { return star_.CheckPeers(); }
  absl::Status CheckPeersIn(uint64_t call) override { return star_.CheckPeersIn(call); }
  bool failed() const override { return star_.failed(); }
  bool HasLeft(int rank) const override { return star_.HasLeft(rank); }
  void NoteFinishedCalls(uint64_t calls) override { star_.NoteFinishedCalls(calls); }
  void Announce(const absl::Status& error) override { star_.Announce(error); }
  std::string secret() const override { return secret_; }
  std::string local_address() const override { return star_.local_address(); }

 private:
  const World world_;
  const std::string kind_;
  std::string secret_;
  uint32_t sequence_ = 0;
  Star star_;
};

absl::Status TcpRendezvous::Host(Socket listener, const Deadline& deadline) {
  const absl::StatusOr<MeetingDescriptors> room = PrepareDescriptors(world_.world_size, world_.host);
  JoinServer server(std::move(listener), world_.world_size, world_.job_secret,
                    room.ok() ? room->guests : kFewestGuests);
  if (!room.ok()) server.Refuse(room.status());
  const absl::Status met = server.Run(deadline);
  for (int rank = 1; rank < world_.world_size; ++rank) {
    JoinServer::Member& member = server.members()[static_cast<size_t>(rank)];
    if (!member.socket.open()) continue;
    star_.Add(rank, absl::StrCat("rank ", rank, " on ", member.host), std::move(member.socket), std::move(member.keys),
              kMaxBlobBytes);
  }
  if (!met.ok()) return star_.Fail(Annotate(met, absl::StrCat("rank 0 at ", world_.rendezvous)));
  DISTILL_RETURN_IF_ERROR(star_.Start());
  // A job on loopback without a secret: what its parts prove themselves with comes from here. Who could read it there
  // could have joined the job itself.
  const std::string for_parts = secret_.empty() ? MakeNonce() : "";
  if (secret_.empty()) secret_ = for_parts;
  star_.Tell(MakeMessage(FrameKind::kReady, sequence_, PackStrings({world_.host, for_parts})));
  return absl::OkStatus();
}

absl::Status TcpRendezvous::Join(const MeetingPlace& meeting, const Deadline& deadline) {
  DISTILL_ASSIGN_OR_RETURN(Joined joined, JoinRankZero(world_, meeting, deadline));
  const size_t max_payload = (kMaxBlobBytes + 64) * static_cast<size_t>(world_.world_size);
  star_.Add(0, absl::StrCat("rank 0 at ", world_.rendezvous), std::move(joined.socket), std::move(joined.keys),
            max_payload);
  DISTILL_RETURN_IF_ERROR(star_.Start());
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> ready,
                           star_.Await(FrameKind::kReady, sequence_, Deadline::After(deadline.Left() + kGrace)));
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> fields, UnpackStrings(ready[0]));
  // A job without a secret is told one for its parts.
  if (fields.size() != 2 || (secret_.empty() && fields[1].empty()))
    return star_.Fail(absl::DataLossError("rank 0's first message cannot be read"));
  star_.Rename(0, absl::StrCat("rank 0 on ", fields[0]));
  if (secret_.empty()) secret_ = std::move(fields[1]);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> TcpRendezvous::AllGather(const std::string& blob, const Deadline& deadline) {
  if (blob.size() > kMaxBlobBytes) {
    return star_.Fail(
        absl::InvalidArgumentError(absl::StrCat("a blob of ", blob.size(), " bytes; 16 MiB is the limit")));
  }
  ++sequence_;
  if (world_.rank != 0) {
    star_.Tell(MakeMessage(FrameKind::kBlob, sequence_, blob));
    DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> packed,
                             star_.Await(FrameKind::kAll, sequence_, Deadline::After(deadline.Left() + kGrace)));
    return UnpackStrings(packed[0]);
  }
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> blobs, star_.Await(FrameKind::kBlob, sequence_, deadline));
  blobs.insert(blobs.begin(), blob);
  star_.Tell(MakeMessage(FrameKind::kAll, sequence_, PackStrings(blobs)));
  DISTILL_RETURN_IF_ERROR(star_.Flush(deadline));
  return blobs;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Rendezvous>> CreateTcpRendezvous(const World& world, const Deadline& deadline) {
  DISTILL_ASSIGN_OR_RETURN(HostPort place, ParseHostPort(world.rendezvous));
  World met = world;
  // Nothing would tell a stranger from a rank: whatever the place is called, no other host gets to it.
  if (world.job_secret.empty()) {
    if (!IsLoopback(place.host)) place.host = "127.0.0.1";
    met.rendezvous = absl::StrCat(place.host == "::1" ? "[::1]" : place.host, ":", place.port,
                                  " (this host alone, for want of a job secret)");
  }
  MeetingPlace meeting = {"tcp", Socket(), {place}};
  if (world.rank == 0) meeting.listener = TakeHandedSocket(place);
  if (world.rank == 0 && !meeting.listener.open()) {
    DISTILL_ASSIGN_OR_RETURN(meeting.listener, Listen(place));
  }
  return CreateTcpRendezvousAt(met, std::move(meeting), deadline);
}

absl::StatusOr<std::unique_ptr<Rendezvous>> CreateTcpRendezvousAt(const World& world, MeetingPlace place,
                                                                  const Deadline& deadline) {
  auto rendezvous = std::make_unique<TcpRendezvous>(world, std::move(place.kind));
  DISTILL_RETURN_IF_ERROR(world.rank == 0 ? rendezvous->Host(std::move(place.listener), deadline)
                                          : rendezvous->Join(place, deadline));
  return rendezvous;
}

}  // namespace distill
