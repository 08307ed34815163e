// The connections that a rendezvous is made of: rank 0 has one to every other rank, the others have one to rank 0.
//
// A thread of the star's own moves the bytes, so that a rank that computes, or waits in a collective, still answers for
// itself: it reads what comes, writes what waits, beats, and counts how long each peer has been silent. What it learns
// is kept under a lock that is never held while anything blocks.
// The first thing that goes wrong is the star's failure; rank 0 passes on to all what it finds or hears.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libdistill/core/deadline.h"
#include "libdistill/world/busy_watch.h"
#include "libdistill/world/call_watch.h"
#include "libdistill/world/framing.h"
#include "libdistill/world/heartbeat_clock.h"
#include "libdistill/world/ready_sockets.h"
#include "libdistill/world/rendezvous.h"
#include "libdistill/world/socket.h"
#include "libdistill/world/star_peer.h"
#include "libdistill/world/world.h"

namespace distill {

class Star {
 public:
  // `place`: where rank 0 listens, for messages. `busy`: whose phases it tells, and which hears of the others'.
  Star(const World& world, std::string place, std::shared_ptr<BusyRanks> busy);
  // Joins the thread, which waits for nobody, and leaves what the kernel takes at once of a goodbye.
  ~Star();
  Star(const Star&) = delete;
  Star& operator=(const Star&) = delete;

  // Before Start.
  void Add(int rank, std::string name, Socket socket, FrameKeys keys, size_t max_payload);
  // ResourceExhausted: there is no thread or no descriptor for it, or the kernel cannot watch one of the connections
  // (Internal where that is no want of memory). The peers are told.
  [[nodiscard]] absl::Status Start();
  void Rename(int rank, std::string name);

  // See Rendezvous.
  void StartHeartbeat(absl::Duration timeout);
  void CompareCalls(std::function<std::vector<CallView>()> last_calls);
  absl::Duration ReportLate(int64_t call, absl::Duration allowed);
  absl::Status CheckPeers();
  absl::Status CheckPeersIn(uint64_t call);
  bool HasLeft(int rank) const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  void Announce(const absl::Status& error) { Fail(error).IgnoreError(); }
  void NoteFinishedCalls(uint64_t calls) { finished_calls_ = calls; }
  std::string local_address() const;
  // How often the kernel was asked for what peers sent: it grows with what comes, not with the number of peers.
  int64_t receive_calls() const;

  // To every peer; the thread sends it. All share the one message.
  void Tell(const SharedMessage& message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    TellLocked(message);
  }
  // Blocks until the kernel has taken all that was told.
  [[nodiscard]] absl::Status Flush(const Deadline& deadline);
  // Blocks until every peer's next frame is there and is of this kind and exchange: their payloads, in the order in
  // which the peers were added. DeadlineExceeded names the peers that sent none.
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> Await(FrameKind kind, uint32_t sequence,
                                                               const Deadline& deadline);
  // Makes it this star's failure, unless it has one, and tells the peers. Returns the failure.
  absl::Status Fail(const absl::Status& error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return FailLocked(error);
  }

 private:
  bool root() const { return world_.rank == 0; }
  void Serve();
  // These want the lock held. Note(OK) does nothing.
  void Note(const absl::Status& error);
  absl::Status FailLocked(const absl::Status& error) { return Note(error), failure_; }
  void TellLocked(const SharedMessage& message);
  void Send(StarPeer& peer);
  void Read(StarPeer& peer);
  void Leave(StarPeer& peer);
  void Take(StarPeer& peer, Frame frame);
  void TakeGoodbye(StarPeer& peer, const std::string& payload);
  void Beat();

  const World world_;
  const std::string place_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> some_left_{false};
  std::atomic<uint64_t> finished_calls_{0};
  ReadySockets sockets_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  HeartbeatClock clock_;
  absl::Status failure_;
  std::list<StarPeer> peers_;
  CallWatch watch_{world_, clock_, peers_};
  BusyWatch busy_;
  std::vector<Goodbye> left_;
  std::thread thread_;
};

}  // namespace distill
