// How ranks first find each other: a small exchange for start-up (addresses, host ids), and the connection over which
// a lost rank is noticed later.
//
//   DISTILL_ASSIGN_OR_RETURN(auto meeting, CreateRendezvous(world, Deadline::After(absl::Seconds(60))));
//   DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> all, meeting->AllGather(my_address, deadline));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libdistill/core/deadline.h"
#include "libdistill/world/busy_ranks.h"
#include "libdistill/world/world.h"

namespace distill {

// A collective call of this rank: its number, and all that the ranks must agree on, as text.
struct CallView {
  int64_t number = 0;
  std::string text;
};

// CheckPeers, failed and Announce may be called from any thread, beside the one that makes the other calls.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // "local", "tcp" or "mpi": how the ranks found each other.
  virtual absl::string_view kind() const = 0;

  // Every rank must call it; all get every rank's blob (at most 16 MiB), in the order of ranks. Unavailable: a rank was
  // lost; DeadlineExceeded names the ranks that did not take part. After an error the rendezvous is of no more use.
  [[nodiscard]] virtual absl::StatusOr<std::vector<std::string>> AllGather(const std::string& blob,
                                                                           const Deadline& deadline) = 0;

  // From here on a thread of the rendezvous' own tells the others, often enough, that this process still runs; a rank
  // that has been silent for `timeout` is lost: stopped, or its host or its link is gone. However busy a rank is, its
  // thread beats. Every rank must call it, soon after the meeting, with the same time.
  virtual void StartHeartbeat(absl::Duration timeout) { (void)timeout; }

  // Unavailable, or what a peer announced, once a rank is known to be lost. Never blocks. A rank that destroyed its
  // rendezvous has left, and is not lost.
  [[nodiscard]] virtual absl::Status CheckPeers() { return absl::OkStatus(); }

  // Whether CheckPeers would fail, as far as is known already; costs no system call and no lock.
  virtual bool failed() const { return false; }

  // The same for a rank that waits in the job's collective call number `call` (from 1): a rank that left before it had
  // finished this call will never come, and is named. Ranks that finished it may leave while others are still in it.
  // For a wait that asks every few milliseconds: says what the rendezvous' own thread has heard, without a system call,
  // and without a lock unless that was something.
  [[nodiscard]] virtual absl::Status CheckPeersIn(uint64_t call) { return (void)call, CheckPeers(); }

  // From here on the heartbeat's thread also asks `last_calls` for the rank's last calls, and rank 0 compares them:
  // ranks whose calls of one number differ fail the rendezvous within two beats, FailedPrecondition with both views. It
  // must not block. Null: no longer; it is not running any more when this returns.
  virtual void CompareCalls(std::function<std::vector<CallView>()> last_calls) { (void)last_calls; }

  // For a rank whose collective call of this number has taken longer than `allowed`: asks rank 0 whether there are
  // ranks that have not made it, by the numbers in their beats; the rendezvous then fails with DeadlineExceeded, with
  // the names of those furthest behind. Returns how long that may take: zero where nobody knows. Never blocks.
  virtual absl::Duration ReportLate(int64_t call, absl::Duration allowed) {
    return (void)call, (void)allowed, absl::ZeroDuration();
  }

  // Whether the rank is known to have left, as of the last check.
  virtual bool HasLeft(int rank) const { return (void)rank, false; }

  // How many calls this rank has finished; the others hear it when this rendezvous is destroyed.
  virtual void NoteFinishedCalls(uint64_t calls) { (void)calls; }

  // Tells the other ranks that this one gives up: their and this one's next CheckPeers return this error, unless they
  // know of another one already. Best effort, never blocks; from any thread.
  virtual void Announce(const absl::Status& error) { (void)error; }

  // Which ranks work outside of collectives; its own of each rendezvous, unless that is a part of a job.
  const std::shared_ptr<BusyRanks>& busy() const { return busy_; }
  // From now on the whole job's, for a rendezvous of some of its ranks. Before the first deadline is made.
  void ShareBusy(std::shared_ptr<BusyRanks> of_job) { busy_ = std::move(of_job); }
  // For a wait for other ranks: no time runs while one of them says that it is busy. The rendezvous must outlive it.
  Deadline DeadlineAfter(absl::Duration timeout) const { return Deadline::After(timeout, &busy_->pause()); }

  // What only the ranks of the job know, the same on each: for what they prove to one another later
  // (world/handshake.h). Never sent where there is a job secret. Empty only where there is but one rank, or where ranks
  // are simulated, and so have no parts that meet.
  virtual std::string secret() const { return ""; }

  // A numeric address of this host on the network that reaches the other ranks; empty when unknown.
  virtual std::string local_address() const { return ""; }

 protected:
  Rendezvous() = default;

 private:
  std::shared_ptr<BusyRanks> busy_ = std::make_shared<BusyRanks>();
};

// Every rank must call it; blocks until all have come, or the deadline: DeadlineExceeded, with the missing ranks.
// Over TCP; when world.rendezvous is empty MPI tells the ranks where. PermissionDenied: another job secret.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Rendezvous>> CreateRendezvous(const World& world,
                                                                           const Deadline& deadline);

}  // namespace distill
