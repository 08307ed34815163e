// How ranks first find each other: a small exchange for start-up (addresses, host ids), and the connection over which
// a lost rank is noticed later.
//
//   DISTILL_ASSIGN_OR_RETURN(auto meeting, CreateRendezvous(world, Deadline::After(absl::Seconds(60))));
//   DISTILL_ASSIGN_OR_RETURN(std::vector<std::string> all, meeting->AllGather(my_address, deadline));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libdistill/core/deadline.h"
#include "libdistill/world/world.h"

namespace distill {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // "local", "tcp" or "mpi".
  virtual absl::string_view kind() const = 0;

  // Every rank must call it; all get every rank's blob (at most 16 MiB), in the order of ranks. Unavailable: a rank was
  // lost; DeadlineExceeded names the ranks that did not take part. After an error the rendezvous is of no more use.
  [[nodiscard]] virtual absl::StatusOr<std::vector<std::string>> AllGather(const std::string& blob,
                                                                           const Deadline& deadline) = 0;

  // Unavailable, or what a peer announced, once a rank is known to be lost. Never blocks. A rank that destroyed its
  // rendezvous has left, and is not lost.
  [[nodiscard]] virtual absl::Status CheckPeers() { return absl::OkStatus(); }

  // The same for a rank that waits in the job's collective call number `call` (from 1): a rank that left before it had
  // finished this call will never come, and is named. Ranks that finished it may leave while others are still in it.
  [[nodiscard]] virtual absl::Status CheckPeersIn(uint64_t call) { return (void)call, CheckPeers(); }

  // How many calls this rank has finished; the others hear it when this rendezvous is destroyed.
  virtual void NoteFinishedCalls(uint64_t calls) { (void)calls; }

  // Tells the other ranks that this one gives up: their next CheckPeers returns this error. Best effort, never blocks.
  virtual void Announce(const absl::Status& error) { (void)error; }

  // A numeric address of this host on the network that reaches the other ranks; empty when unknown.
  virtual std::string local_address() const { return ""; }

 protected:
  Rendezvous() = default;
};

// Every rank must call it; blocks until all have come, or the deadline: DeadlineExceeded, with the missing ranks.
// Over MPI when world.rendezvous is empty, else over TCP. PermissionDenied: another job secret.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Rendezvous>> CreateRendezvous(const World& world,
                                                                           const Deadline& deadline);

}  // namespace distill
