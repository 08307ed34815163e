#include "libdistill/world/star.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libdistill/core/check.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/core/thread.h"
#include "libdistill/world/different_calls.h"
#include "libdistill/world/join_server.h"

namespace distill {
Star::Star(const World& world, std::string place, std::shared_ptr<BusyRanks> busy)
    : world_(world),
      place_(std::move(place)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      busy_(world_, std::move(busy), peers_) {
  DISTILL_CHECK(wake_ >= 0, "no eventfd: this process has too many open files");
  busy_.ranks().OnChange([this] { Wake(); });
}

Star::~Star() {
  busy_.ranks().OnChange(nullptr);
  if (thread_.joinable()) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    Wake();
    thread_.join();
  }
  const Goodbye mine = {world_.rank, finished_calls_, absl::StrCat("rank ", world_.rank, " on ", world_.host)};
  Tell(EncodeFrame(FrameKind::kGoodbye, 0, EncodeGoodbye(mine)));
  for (StarPeer& peer : peers_) peer.Drain();
  close(wake_);
}

void Star::Add(int rank, std::string name, Socket socket, size_t max_payload) {
  peers_.emplace_back(rank, std::move(name), std::move(socket), max_payload);
}

absl::Status Star::Start() {
  absl::StatusOr<std::thread> thread = StartThread("the heartbeats", [this] { Serve(); });
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
  Wake();
}

void Star::Wake() const {
  const uint64_t one = 1;
  // A counter that is full wakes the thread as well.
  if (write(wake_, &one, sizeof(one)) < 0) return;
}

void Star::Serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    std::vector<pollfd> entries = {{wake_, POLLIN, 0}};
    for (const StarPeer& peer : peers_) {
      const int writing = peer.outbox.empty() ? 0 : POLLOUT;
      if (!peer.left) entries.push_back({peer.socket.fd(), static_cast<short>(POLLIN | writing), 0});
    }
    const int wait = watch_.PollMilliseconds();
    lock.unlock();
    poll(entries.data(), entries.size(), wait);
    uint64_t count = 0;
    const bool woken = read(wake_, &count, sizeof(count)) > 0;
    lock.lock();
    for (StarPeer& peer : peers_) {
      Read(peer);
      peer.Send();
    }
    const bool beats = clock_.due();
    if (beats) Beat();
    Note(watch_.JudgeLate());
    if (const std::string news = busy_.News(beats); !news.empty()) TellLocked(news);
    if (woken || entries.size() > 1) changed_.notify_all();
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
  for (StarPeer& peer : peers_) {
    if (peer.left) continue;
    if (peer.outbox.empty()) {
      peer.outbox = EncodeFrame(FrameKind::kBeat, 0, root() ? "" : EncodeCalls(calls));
      peer.Send();
    }
    if (!ran) peer.patience = clock_.Patience();
    if (!peer.patience.Passed()) continue;
    peer.left = true;
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
    Wake();
  } else {
    TellLocked(EncodeFrame(FrameKind::kLate, 0, report));
  }
  return watch_.AnswersWithin();
}

void Star::Read(StarPeer& peer) {
  while (!peer.left) {
    const uint64_t before = peer.reader.received_bytes();
    const absl::StatusOr<bool> whole = peer.reader.Poll(peer.socket);
    if (peer.reader.received_bytes() != before) peer.patience = clock_.Patience();
    if (!whole.ok()) {
      peer.left = true;
      Note(absl::UnavailableError(
          absl::StrCat(peer.name, " was lost (", RemoteAddress(peer.socket), ": ", whole.status().message(), ")")));
      return;
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
  if (goodbye->rank == peer.rank) peer.left = true;
  if (root()) TellLocked(EncodeFrame(FrameKind::kGoodbye, 0, EncodeGoodbye(*goodbye)));
  left_.push_back(*std::move(goodbye));
  some_left_.store(true, std::memory_order_release);
}

absl::Status Star::CheckPeers() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (StarPeer& peer : peers_) Read(peer);
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
  TellLocked(EncodeFrame(FrameKind::kError, 0, EncodeStatus(failure_)));
  changed_.notify_all();
}

void Star::TellLocked(const std::string& frame) {
  bool left_over = false;
  for (StarPeer& peer : peers_) {
    if (peer.left) continue;
    peer.outbox += frame;
    peer.Send();
    left_over = left_over || !peer.outbox.empty();
  }
  if (left_over) Wake();
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
    const Frame frame = *std::exchange(peer.waiting, std::nullopt);
    if (frame.kind != kind || frame.sequence != sequence) {
      return FailLocked(DifferentCalls(absl::StrCat(peer.name, " is at exchange ", frame.sequence),
                                       absl::StrCat("this rank at exchange ", sequence)));
    }
    payloads.push_back(frame.payload);
  }
  return payloads;
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
