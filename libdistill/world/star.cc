#include "libdistill/world/star.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/world/different_calls.h"
#include "libdistill/world/join_server.h"

namespace distill {
Star::Star(const World& world, std::string place, std::shared_ptr<BusyRanks> busy)
    : world_(world), place_(std::move(place)), busy_(world_, std::move(busy), peers_) {
  busy_.ranks().OnChange([this] { sockets_.Wake(); });
}

Star::~Star() {
  busy_.ranks().OnChange(nullptr);
  if (thread_.joinable()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    sockets_.Wake();
    thread_.join();
  }
  const Goodbye mine = {world_.rank, finished_calls_, absl::StrCat("rank ", world_.rank, " on ", world_.host)};
  Tell(MakeMessage(FrameKind::kGoodbye, 0, EncodeGoodbye(mine)));
  for (StarPeer& peer : peers_) peer.Drain();
}

void Star::Add(int rank, std::string name, Socket socket, FrameKeys keys, size_t max_payload) {
  StarPeer& peer = peers_.emplace_back(rank, std::move(name), std::move(socket), std::move(keys), max_payload);
  sockets_.Add(peer.socket.fd(), &peer);
}

absl::Status Star::Start() {
  const absl::Status can_wait = sockets_.status();
  absl::StatusOr<std::thread> thread =
      can_wait.ok() ? StartThread("the heartbeats", [this] { Serve(); }) : absl::StatusOr<std::thread>(can_wait);
  if (!thread.ok()) return Fail(Annotate(thread.status(), absl::StrCat("rank ", world_.rank, " on ", world_.host)));
  thread_ = *std::move(thread);
  return absl::OkStatus();
}

void Star::Rename(int rank, std::string name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (StarPeer& peer : peers_) {
    if (peer.rank == rank) peer.name = name;
  }
}

void Star::StartHeartbeat(absl::Duration timeout) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    clock_.Start(timeout);
    for (StarPeer& peer : peers_) peer.patience = clock_.Patience();
  }
  sockets_.Wake();
}

void Star::Serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    const int wait = watch_.PollMilliseconds();
    lock.unlock();
    const std::vector<ReadySockets::Ready> ready = sockets_.Wait(wait);
    lock.lock();
    for (const ReadySockets::Ready& socket : ready) {
      StarPeer& peer = *static_cast<StarPeer*>(socket.owner);
      if (socket.readable) Read(peer);
      Send(peer);
    }
    const bool beats = clock_.due();
    if (beats) Beat();
    Note(watch_.JudgeLate());
    if (const SharedMessage news = busy_.News(beats)) TellLocked(news);
    changed_.notify_all();
    if (const std::string shown = busy_.TextToShow(); !shown.empty()) {
      lock.unlock();
      LogInfo(shown);
      lock.lock();
    }
  }
}

// Beats, and looks who does not.
void Star::Beat() {
  const bool ran = clock_.Begin();
  const std::vector<CallView> calls = watch_.LastCalls();
  if (root()) Note(watch_.Compare(calls));
  const SharedMessage beat = MakeMessage(FrameKind::kBeat, 0, root() ? "" : EncodeCalls(calls));
  for (StarPeer& peer : peers_) {
    if (peer.left) continue;
    if (peer.outbox.empty()) {
      peer.outbox.Add(beat);
      Send(peer);
    }
    if (!ran) peer.patience = clock_.Patience();
    if (!peer.patience.Passed()) continue;
    Leave(peer);
    Note(peer.Silent(clock_.timeout()));
  }
}

void Star::CompareCalls(std::function<std::vector<CallView>()> last_calls) {
  const std::lock_guard<std::mutex> lock(mutex_);
  watch_.SetLastCalls(std::move(last_calls));
}

absl::Duration Star::ReportLate(int64_t call, absl::Duration allowed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!watch_.is_on()) return absl::ZeroDuration();
  const std::string report = CallWatch::LateReport(call, allowed);
  if (root()) {
    watch_.TakeLate(report);
    sockets_.Wake();
  } else {
    TellLocked(MakeMessage(FrameKind::kLate, 0, report));
  }
  return watch_.AnswersWithin();
}

// A peer that sends much is read a piece at a time: the other peers wait meanwhile, and so do threads that want the
// lock. What is left in its socket is reported again.
void Star::Read(StarPeer& peer) {
  constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
  const uint64_t until = peer.reader.received_bytes() + kPieceBytes;
  while (!peer.left) {
    const uint64_t before = peer.reader.received_bytes();
    const absl::StatusOr<bool> whole = peer.reader.Poll(peer.socket, until);
    if (peer.reader.received_bytes() != before) peer.patience = clock_.Patience();
    if (absl::IsDataLoss(whole.status())) {
      Note(Annotate(whole.status(), absl::StrCat(peer.name, " (", RemoteAddress(peer.socket), ")")));
      return Leave(peer);  // told: what it hears is still proven to it
    }
    if (!whole.ok()) {
      Leave(peer);
      return Note(absl::UnavailableError(
          absl::StrCat(peer.name, " was lost (", RemoteAddress(peer.socket), ": ", whole.status().message(), ")")));
    }
    if (!*whole) return;
    Frame frame = std::move(peer.reader.frame());
    peer.reader.Drop();
    Take(peer, std::move(frame));
  }
}

void Star::Take(StarPeer& peer, Frame frame) {
  switch (frame.kind) {
    case FrameKind::kBeat:
      peer.heard_since_late = true;
      if (absl::StatusOr<std::vector<CallView>> calls = DecodeCalls(frame.payload); calls.ok() && !calls->empty()) {
        peer.calls = *std::move(calls);
      }
      return;
    case FrameKind::kLate:
      if (root()) watch_.TakeLate(frame.payload);
      return;
    case FrameKind::kBusy:
      return busy_.Take(peer, frame.payload);
    case FrameKind::kGoodbye:
      return TakeGoodbye(peer, frame.payload);
    case FrameKind::kError: {
      const absl::Status error = DecodeStatus(frame.payload);
      // Rank 0 passes on what it was told, with the name of whose error it is.
      Note(root() ? Annotate(error, peer.name) : error);
      return;
    }
    default:
      if (peer.waiting) {
        Note(DifferentCalls(absl::StrCat(peer.name, " begins exchange ", frame.sequence),
                            absl::StrCat("exchange ", peer.waiting->sequence, " has not ended here")));
      }
      peer.waiting = std::move(frame);
  }
}

void Star::TakeGoodbye(StarPeer& peer, const std::string& payload) {
  absl::StatusOr<Goodbye> goodbye = DecodeGoodbye(payload);
  if (!goodbye.ok()) return Note(Annotate(goodbye.status(), peer.name));
  if (goodbye->rank == peer.rank) Leave(peer);
  if (root()) TellLocked(MakeMessage(FrameKind::kGoodbye, 0, EncodeGoodbye(*goodbye)));
  left_.push_back(*std::move(goodbye));
  some_left_.store(true, std::memory_order_release);
}

absl::Status Star::CheckPeers() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const ReadySockets::Ready& socket : sockets_.Look()) {
    if (socket.readable) Read(*static_cast<StarPeer*>(socket.owner));
  }
  return failure_;
}

absl::Status Star::CheckPeersIn(uint64_t call) {
  if (!failed() && !some_left_.load(std::memory_order_acquire)) return absl::OkStatus();
  const std::lock_guard<std::mutex> lock(mutex_);
  DISTILL_RETURN_IF_ERROR(failure_);
  for (const Goodbye& gone : left_) {
    if (gone.finished_calls >= call) continue;
    return FailLocked(absl::UnavailableError(absl::StrCat(gone.name, " has left the job")));
  }
  return absl::OkStatus();
}

bool Star::HasLeft(int rank) const {
  if (!some_left_.load(std::memory_order_acquire)) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(left_.begin(), left_.end(), [rank](const Goodbye& gone) { return gone.rank == rank; });
}

// The first error is the failure; the peers are told once.
void Star::Note(const absl::Status& error) {
  if (error.ok() || !failure_.ok()) return;
  failure_ = error;
  failed_.store(true, std::memory_order_release);
  TellLocked(MakeMessage(FrameKind::kError, 0, EncodeStatus(failure_)));
  changed_.notify_all();
}

void Star::TellLocked(const SharedMessage& message) {
  for (StarPeer& peer : peers_) {
    if (peer.left) continue;
    peer.outbox.Add(message);
    Send(peer);
  }
}

void Star::Send(StarPeer& peer) {
  if (peer.left) return;
  // Reading shows what became of a peer that takes nothing more.
  if (!peer.outbox.Send(peer.socket).ok()) peer.outbox.Break();
  const bool waits = !peer.outbox.empty();
  if (waits == std::exchange(peer.waits_to_send, waits)) return;
  Note(Annotate(sockets_.WaitToSend(peer.socket.fd(), &peer, waits), peer.name));
}

// Nothing is read or sent any more.
void Star::Leave(StarPeer& peer) {
  if (!peer.left) sockets_.Remove(peer.socket.fd());
  peer.left = true;
}

absl::Status Star::Flush(const Deadline& deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    DISTILL_RETURN_IF_ERROR(failure_);
    const auto waits =
        std::find_if(peers_.begin(), peers_.end(), [](const StarPeer& p) { return !p.left && !p.outbox.empty(); });
    if (waits == peers_.end()) return absl::OkStatus();
    if (deadline.Passed()) return FailLocked(deadline.Error(absl::StrCat("exchange with ", waits->name)));
    changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(deadline.Left(), absl::Seconds(1))));
  }
}

absl::StatusOr<std::vector<std::string>> Star::Await(FrameKind kind, uint32_t sequence, const Deadline& deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    std::vector<int> missing;
    for (const StarPeer& peer : peers_) {
      if (peer.waiting) continue;
      if (peer.left && failure_.ok())
        return FailLocked(absl::UnavailableError(absl::StrCat(peer.name, " left before all had met")));
      missing.push_back(peer.rank);
    }
    if (missing.empty()) break;  // what came before a failure counts
    DISTILL_RETURN_IF_ERROR(failure_);
    if (deadline.Passed()) {
      return FailLocked(deadline.Error(absl::StrCat("exchange ", sequence, " at ", place_, ": waiting for ",
                                                    DescribeRanks(missing), " of ", world_.world_size)));
    }
    changed_.wait_for(lock, absl::ToChronoNanoseconds(std::min(deadline.Left(), absl::Seconds(1))));
  }
  std::vector<std::string> payloads;
  for (StarPeer& peer : peers_) {
    Frame frame = *std::exchange(peer.waiting, std::nullopt);
    if (frame.kind != kind || frame.sequence != sequence) {
      return FailLocked(DifferentCalls(absl::StrCat(peer.name, " is at exchange ", frame.sequence),
                                       absl::StrCat("this rank at exchange ", sequence)));
    }
    payloads.push_back(std::move(frame.payload));
  }
  return payloads;
}

int64_t Star::receive_calls() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t calls = 0;
  for (const StarPeer& peer : peers_) calls += peer.reader.receive_calls();
  return calls;
}

std::string Star::local_address() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string address;
  for (const StarPeer& peer : peers_) {
    address = LocalAddress(peer.socket);
    if (!absl::StartsWith(address, "127.") && address != "::1") break;
  }
  return address;
}

}  // namespace distill
