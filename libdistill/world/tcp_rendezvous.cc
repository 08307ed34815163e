#include "libdistill/world/tcp_rendezvous.h"

#include <poll.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/world/framing.h"
#include "libdistill/world/join_client.h"
#include "libdistill/world/join_server.h"

namespace distill {
namespace {

// Rank 0's deadline passes first, so that it can still tell the others which rank was missing.
constexpr absl::Duration kGrace = absl::Seconds(2);

// A connection to another rank: rank 0 has one to each, the others one to rank 0.
struct Peer {
  Peer(int rank, std::string name, Socket socket, size_t max_payload)
      : rank(rank), name(std::move(name)), socket(std::move(socket)), reader(max_payload) {}
  int rank;
  std::string name;  // "rank 2 on host-b"
  Socket socket;
  FrameReader reader;
  bool has_frame = false;
  bool left = false;
};

class TcpRendezvous : public Rendezvous {
 public:
  explicit TcpRendezvous(const World& world) : world_(world) {}
  // Says that this end is no loss; the kernel takes these few bytes at once.
  ~TcpRendezvous() override {
    const Goodbye mine = {world_.rank, finished_calls_, absl::StrCat("rank ", world_.rank, " on ", world_.host)};
    Tell(EncodeFrame(FrameKind::kGoodbye, sequence_, EncodeGoodbye(mine)));
  }

  absl::string_view kind() const override { return "tcp"; }
  absl::Status Meet(const Deadline& deadline);
  absl::StatusOr<std::vector<std::string>> AllGather(const std::string& blob, const Deadline& deadline) override;
  absl::Status CheckPeers() override;
  absl::Status CheckPeersIn(uint64_t call) override;
  void NoteFinishedCalls(uint64_t calls) override { finished_calls_ = calls; }
  void Announce(const absl::Status& error) override;
  std::string local_address() const override;

 private:
  bool root() const { return world_.rank == 0; }
  absl::Status Host(const HostPort& place, const Deadline& deadline);
  absl::StatusOr<std::vector<std::string>> CollectAndSpread(const std::string& blob, const Deadline& deadline);
  // Waits until every peer's next frame is there, and is one of `kind`.
  absl::Status AwaitFrames(FrameKind kind, const Deadline& deadline);
  absl::Status Absorb(Peer& peer);
  absl::Status TakeGoodbye(Peer& peer);
  absl::Status Fail(absl::Status error);
  void Tell(const std::string& frame);

  const World world_;
  uint32_t sequence_ = 0;
  uint64_t finished_calls_ = 0;
  absl::Status failure_;
  std::vector<Peer> peers_;
  std::vector<Goodbye> left_;
};

absl::Status TcpRendezvous::Meet(const Deadline& deadline) {
  DISTILL_ASSIGN_OR_RETURN(const HostPort place, ParseHostPort(world_.rendezvous));
  if (root()) return Host(place, deadline);
  DISTILL_ASSIGN_OR_RETURN(Socket socket, JoinRankZero(world_, place, deadline));
  const size_t max_payload = (kMaxBlobBytes + 64) * static_cast<size_t>(world_.world_size);
  peers_.emplace_back(0, absl::StrCat("rank 0 at ", world_.rendezvous), std::move(socket), max_payload);
  DISTILL_RETURN_IF_ERROR(AwaitFrames(FrameKind::kReady, Deadline::After(deadline.Left() + kGrace)));
  peers_[0].reader.Drop();
  peers_[0].has_frame = false;
  return absl::OkStatus();
}

absl::Status TcpRendezvous::Host(const HostPort& place, const Deadline& deadline) {
  DISTILL_ASSIGN_OR_RETURN(Socket listener, Listen(place));
  JoinServer server(std::move(listener), world_.world_size, world_.job_secret);
  const absl::Status met = server.Run(deadline);
  for (int rank = 1; rank < world_.world_size; ++rank) {
    JoinServer::Member& member = server.members()[static_cast<size_t>(rank)];
    if (!member.socket.open()) continue;
    peers_.emplace_back(rank, absl::StrCat("rank ", rank, " on ", member.host), std::move(member.socket),
                        kMaxBlobBytes);
  }
  if (!met.ok()) return Fail(Annotate(met, absl::StrCat("rank 0 at ", world_.rendezvous)));
  Tell(EncodeFrame(FrameKind::kReady, sequence_, ""));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> TcpRendezvous::AllGather(const std::string& blob, const Deadline& deadline) {
  if (!failure_.ok()) return failure_;
  if (blob.size() > kMaxBlobBytes) {
    return Fail(absl::InvalidArgumentError(absl::StrCat("a blob of ", blob.size(), " bytes; 16 MiB is the limit")));
  }
  ++sequence_;
  if (root()) return CollectAndSpread(blob, deadline);
  Peer& peer = peers_[0];
  if (const absl::Status sent = SendAll(peer.socket, EncodeFrame(FrameKind::kBlob, sequence_, blob), deadline);
      !sent.ok()) {
    DISTILL_RETURN_IF_ERROR(CheckPeers());  // rank 0 may have said why
    return Fail(Annotate(sent, absl::StrCat("exchange with ", peer.name)));
  }
  DISTILL_RETURN_IF_ERROR(AwaitFrames(FrameKind::kAll, Deadline::After(deadline.Left() + kGrace)));
  const std::string packed = std::move(peer.reader.frame().payload);
  peer.reader.Drop();
  peer.has_frame = false;
  return UnpackStrings(packed);
}

absl::StatusOr<std::vector<std::string>> TcpRendezvous::CollectAndSpread(const std::string& blob,
                                                                         const Deadline& deadline) {
  DISTILL_RETURN_IF_ERROR(AwaitFrames(FrameKind::kBlob, deadline));
  std::vector<std::string> blobs(static_cast<size_t>(world_.world_size));
  blobs[0] = blob;
  for (Peer& peer : peers_) {
    blobs[static_cast<size_t>(peer.rank)] = std::move(peer.reader.frame().payload);
    peer.reader.Drop();
    peer.has_frame = false;
  }
  const std::string frame = EncodeFrame(FrameKind::kAll, sequence_, PackStrings(blobs));
  for (Peer& peer : peers_) {
    const absl::Status sent = SendAll(peer.socket, frame, deadline);
    if (!sent.ok()) return Fail(Annotate(sent, absl::StrCat("exchange with ", peer.name)));
  }
  return blobs;
}

absl::Status TcpRendezvous::AwaitFrames(FrameKind kind, const Deadline& deadline) {
  for (;;) {
    DISTILL_RETURN_IF_ERROR(CheckPeers());
    std::vector<pollfd> entries;
    std::vector<int> missing;
    for (const Peer& peer : peers_) {
      if (peer.left) return Fail(absl::UnavailableError(absl::StrCat(peer.name, " left before all had met")));
      if (peer.has_frame) continue;
      entries.push_back({peer.socket.fd(), POLLIN, 0});
      missing.push_back(peer.rank);
    }
    if (missing.empty()) break;
    if (deadline.Passed()) {
      return Fail(deadline.Error(absl::StrCat("exchange ", sequence_, " at ", world_.rendezvous, ": waiting for ",
                                              DescribeRanks(missing), " of ", world_.world_size)));
    }
    poll(entries.data(), entries.size(), deadline.PollMilliseconds());
  }
  for (Peer& peer : peers_) {
    const Frame& frame = peer.reader.frame();
    if (frame.kind != kind || frame.sequence != sequence_) {
      return Fail(
          absl::FailedPreconditionError(absl::StrCat(peer.name, " is at exchange ", frame.sequence, ", this rank at ",
                                                     sequence_, ": ranks do not make the same calls")));
    }
  }
  return absl::OkStatus();
}

// Reads what the peer has sent; errors and goodbyes are taken in, other frames wait for their exchange.
absl::Status TcpRendezvous::Absorb(Peer& peer) {
  while (!peer.left && !peer.has_frame) {
    const absl::StatusOr<bool> whole = peer.reader.Poll(peer.socket);
    if (!whole.ok()) {
      peer.left = true;
      return Fail(absl::UnavailableError(
          absl::StrCat(peer.name, " was lost (", RemoteAddress(peer.socket), ": ", whole.status().message(), ")")));
    }
    if (!*whole) return absl::OkStatus();
    if (peer.reader.frame().kind == FrameKind::kGoodbye) {
      DISTILL_RETURN_IF_ERROR(TakeGoodbye(peer));
    } else if (peer.reader.frame().kind == FrameKind::kError) {
      const absl::Status error = DecodeStatus(peer.reader.frame().payload);
      // Rank 0 passes on what it was told, with the name of whose error it is.
      return Fail(root() ? Annotate(error, peer.name) : error);
    } else {
      peer.has_frame = true;
    }
  }
  return absl::OkStatus();
}

absl::Status TcpRendezvous::TakeGoodbye(Peer& peer) {
  absl::StatusOr<Goodbye> goodbye = DecodeGoodbye(peer.reader.frame().payload);
  peer.reader.Drop();
  if (!goodbye.ok()) return Fail(Annotate(goodbye.status(), peer.name));
  if (goodbye->rank == peer.rank) peer.left = true;
  if (root()) Tell(EncodeFrame(FrameKind::kGoodbye, sequence_, EncodeGoodbye(*goodbye)));
  left_.push_back(*std::move(goodbye));
  return absl::OkStatus();
}

absl::Status TcpRendezvous::CheckPeers() {
  if (!failure_.ok()) return failure_;
  for (Peer& peer : peers_) DISTILL_RETURN_IF_ERROR(Absorb(peer));
  return absl::OkStatus();
}

absl::Status TcpRendezvous::CheckPeersIn(uint64_t call) {
  DISTILL_RETURN_IF_ERROR(CheckPeers());
  for (const Goodbye& gone : left_) {
    if (gone.finished_calls >= call) continue;
    return Fail(absl::UnavailableError(absl::StrCat(gone.name, " has left the job")));
  }
  return absl::OkStatus();
}

// Remembers the error and passes it on.
absl::Status TcpRendezvous::Fail(absl::Status error) {
  failure_ = std::move(error);
  Announce(failure_);
  return failure_;
}

void TcpRendezvous::Announce(const absl::Status& error) {
  if (failure_.ok()) failure_ = error;
  Tell(EncodeFrame(FrameKind::kError, sequence_, EncodeStatus(error)));
}

void TcpRendezvous::Tell(const std::string& frame) {
  for (Peer& peer : peers_) {
    if (!peer.left) SendAll(peer.socket, frame, Deadline::After(absl::ZeroDuration())).IgnoreError();
  }
}

std::string TcpRendezvous::local_address() const {
  std::string address;
  for (const Peer& peer : peers_) {
    address = LocalAddress(peer.socket);
    if (!absl::StartsWith(address, "127.") && address != "::1") break;
  }
  return address;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Rendezvous>> CreateTcpRendezvous(const World& world, const Deadline& deadline) {
  auto rendezvous = std::make_unique<TcpRendezvous>(world);
  DISTILL_RETURN_IF_ERROR(rendezvous->Meet(deadline));
  return rendezvous;
}

}  // namespace distill
