#include "libdistill/world/tcp_rendezvous.h"

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/framing.h"
#include "libdistill/world/join_client.h"
#include "libdistill/world/join_server.h"
#include "libdistill/world/star.h"

namespace distill {
namespace {

// Rank 0's deadline passes first, so that it can still tell the others which rank was missing.
constexpr absl::Duration kGrace = absl::Seconds(2);

class TcpRendezvous : public Rendezvous {
 public:
  TcpRendezvous(const World& world, std::string kind)
      : world_(world), kind_(std::move(kind)), star_(world, world.rendezvous, busy()) {}

  absl::string_view kind() const override { return kind_; }
  absl::Status Host(Socket listener, const Deadline& deadline);
  absl::Status Join(const std::vector<HostPort>& places, const Deadline& deadline);
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
  std::string local_address() const override { return star_.local_address(); }

 private:
  const World world_;
  const std::string kind_;
  uint32_t sequence_ = 0;
  Star star_;
};

absl::Status TcpRendezvous::Host(Socket listener, const Deadline& deadline) {
  JoinServer server(std::move(listener), world_.world_size, world_.job_secret);
  const absl::Status met = server.Run(deadline);
  for (int rank = 1; rank < world_.world_size; ++rank) {
    JoinServer::Member& member = server.members()[static_cast<size_t>(rank)];
    if (!member.socket.open()) continue;
    star_.Add(rank, absl::StrCat("rank ", rank, " on ", member.host), std::move(member.socket), kMaxBlobBytes);
  }
  if (!met.ok()) return star_.Fail(Annotate(met, absl::StrCat("rank 0 at ", world_.rendezvous)));
  DISTILL_RETURN_IF_ERROR(star_.Start());
  star_.Tell(EncodeFrame(FrameKind::kReady, sequence_, world_.host));
  return absl::OkStatus();
}

absl::Status TcpRendezvous::Join(const std::vector<HostPort>& places, const Deadline& deadline) {
  DISTILL_ASSIGN_OR_RETURN(Socket socket, JoinRankZero(world_, places, deadline));
  const size_t max_payload = (kMaxBlobBytes + 64) * static_cast<size_t>(world_.world_size);
  star_.Add(0, absl::StrCat("rank 0 at ", world_.rendezvous), std::move(socket), max_payload);
  DISTILL_RETURN_IF_ERROR(star_.Start());
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> hosts,
                           star_.Await(FrameKind::kReady, sequence_, Deadline::After(deadline.Left() + kGrace)));
  star_.Rename(0, absl::StrCat("rank 0 on ", hosts[0]));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> TcpRendezvous::AllGather(const std::string& blob, const Deadline& deadline) {
  if (blob.size() > kMaxBlobBytes) {
    return star_.Fail(
        absl::InvalidArgumentError(absl::StrCat("a blob of ", blob.size(), " bytes; 16 MiB is the limit")));
  }
  ++sequence_;
  if (world_.rank != 0) {
    star_.Tell(EncodeFrame(FrameKind::kBlob, sequence_, blob));
    DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> packed,
                             star_.Await(FrameKind::kAll, sequence_, Deadline::After(deadline.Left() + kGrace)));
    return UnpackStrings(packed[0]);
  }
  DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> blobs, star_.Await(FrameKind::kBlob, sequence_, deadline));
  blobs.insert(blobs.begin(), blob);
  star_.Tell(EncodeFrame(FrameKind::kAll, sequence_, PackStrings(blobs)));
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
  if (world.rank == 0) {
    DISTILL_ASSIGN_OR_RETURN(meeting.listener, Listen(place));
  }
  return CreateTcpRendezvousAt(met, std::move(meeting), deadline);
}

absl::StatusOr<std::unique_ptr<Rendezvous>> CreateTcpRendezvousAt(const World& world, MeetingPlace place,
                                                                  const Deadline& deadline) {
  auto rendezvous = std::make_unique<TcpRendezvous>(world, std::move(place.kind));
  DISTILL_RETURN_IF_ERROR(world.rank == 0 ? rendezvous->Host(std::move(place.listener), deadline)
                                          : rendezvous->Join(place.places, deadline));
  return rendezvous;
}

}  // namespace distill
