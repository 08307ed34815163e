// MPI's own operations over a communicator of its own, each within a time-out: MPI's blocking calls have none, so this
// makes non-blocking ones and tests them until the deadline, and until a peer is lost. MPI cannot call off a
// collective, nor a send. After a call that did not end no other is made in this process, over any communicator, since
// it would let MPI write to buffers that are the caller's again (AbandonMpi); but a thread that was left in
// MPI_Comm_split cannot be held up. Internal to comm/.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/world/rendezvous.h"

namespace distill {

class MpiCalls {
 public:
  struct Comm;  // MPI's communicator

  // `ranks` outlives this. `kept`: what calls are given besides the caller's buffers, in case one never ends.
  MpiCalls(const Communicator& ranks, absl::Duration timeout, std::shared_ptr<void> kept)
      : ranks_(ranks), timeout_(timeout), kept_(std::move(kept)) {}
  // Takes a communicator of MPI's that is this one's alone, or makes one of all ranks where it is null: its messages
  // never meet another's.
  [[nodiscard]] absl::Status Start(std::shared_ptr<Rendezvous> rendezvous, std::shared_ptr<Comm> comm);
  Rendezvous& rendezvous() const { return *rendezvous_; }
  bool has_started() const { return rendezvous_ != nullptr; }

  // A lost peer ends waiting once it did not take part in what is the next call.
  void StartCall() { ++call_; }
  uint64_t call() const { return call_; }

  // One operation of MPI's. Its count fits an int, its type is one that MPI adds or bytes, an average is a
  // sum; a buffer that is input and output is used in place. `what`: for errors, instead of MPI's name of it.
  [[nodiscard]] absl::Status Make(const CommCall& call, const char* what = nullptr) const;
  // One for this rank's color; null for a rank that is in none. After an error a thread may still be in the call, which
  // has all that it writes to.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Comm>> Split(bool takes_part, int color, int key) const;

 private:
  struct Waiting;
  // Why a rank that waits, for `peer` alone if that is a rank, should wait no longer.
  absl::Status CheckWait(const char* what, int peer, Waiting& waiting) const;
  // Makes the non-blocking call, which is given an MPI_Request*, and tests it until it has ended. `peer`: whom alone it
  // waits for. After an error MPI is abandoned: the operation may still be under way.
  absl::Status Await(const char* what, absl::FunctionRef<int(void* request)> start, int peer = -1) const;
  void Abandon(const absl::Status& why) const;

  const Communicator& ranks_;
  const absl::Duration timeout_;
  const std::shared_ptr<void> kept_;
  std::shared_ptr<Rendezvous> rendezvous_;
  std::shared_ptr<Comm> comm_;
  uint64_t call_ = 0;
};

}  // namespace distill
