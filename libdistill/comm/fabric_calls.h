// What the calls over the fabric share, whichever way their bytes go: numbers, buffers, deadlines, and how they end.
// Internal to comm/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libdistill/comm/buffer_work.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/comm/fabric_regions.h"
#include "libdistill/comm/ring.h"
#include "libdistill/core/deadline.h"
#include "libdistill/transport/fabric_endpoint.h"
#include "libdistill/world/rendezvous.h"

namespace distill {

// What a rank said before its connection ended may come so much later.
constexpr absl::Duration kLastWords = absl::Seconds(1);

// A buffer of a call, registered by Allocate, or for this call alone.
struct FabricRegion {
  char* data = nullptr;
  FabricMemory own;
  FoundRegion found;
  RingPiece Piece(int64_t first, int64_t elements, int64_t size) const {
    return {data + first * size, static_cast<size_t>(elements * size), &memory(), first * size};
  }
  const FabricMemory& memory() const { return found.memory != nullptr ? *found.memory : own; }
};

// Memory of a communicator's own, registered: as long as any call so far has needed. Its registration goes before the
// endpoint.
struct FabricScratch {
  std::unique_ptr<CommMemory> memory;
  FabricRegion region;
};

// Used on the endpoint's thread, in its calls.
class FabricCalls {
 public:
  // What is pointed at outlives this. `joining`: the deadline until the first Begin.
  FabricCalls(const Communicator* ranks, MessageEndpoint* endpoint, BufferWork* work, absl::Duration timeout,
              const Deadline& joining)
      : ranks_(*ranks), endpoint_(*endpoint), work_(*work), timeout_(timeout), deadline_(joining) {}

  // Meets the peers by this rendezvous from here on: the start is call number 1.
  void Start(std::shared_ptr<Rendezvous> rendezvous);
  // Begins a collective.
  void Begin(const CommCall& call);
  // Begins a message, which is no collective: it has a deadline of its own.
  void BeginMessage() { deadline_ = rendezvous_->DeadlineAfter(timeout_); }
  // Of the first message of the collective.
  uint64_t tag() const;
  // Null before Start.
  Rendezvous* rendezvous() const { return rendezvous_.get(); }
  uint64_t number() const { return call_; }

  // The buffer, for a call: its registration ends with what is returned.
  absl::StatusOr<FabricRegion> Use(const void* data, int64_t bytes) const;
  // Makes the memory at least so long.
  absl::Status Fit(FabricScratch& scratch, int64_t bytes) const;
  const std::shared_ptr<FabricRegions>& regions() const { return regions_; }

  // The error of a wait for data from `peer`, or for room to send to it: a lost rank, then the deadline.
  absl::Status Check(int peer, bool receiving) const;
  absl::Status CheckPeers() const { return rendezvous_->CheckPeersIn(call_); }
  absl::Status CheckDeadline(int peer, bool receiving) const;
  // The end of what ran on the endpoint for a call that concerns `whom`. After an error nothing is under way any more.
  // The registrations of the call go after it, on the endpoint's own thread.
  absl::Status End(const absl::Status& status, const std::string& whom);
  // The fabric knows ranks by number; the rendezvous may know better what happened to one of `whom`.
  absl::Status Explain(const absl::Status& status, const std::string& whom) const;

 private:
  const Communicator& ranks_;
  MessageEndpoint& endpoint_;
  BufferWork& work_;
  const absl::Duration timeout_;
  Deadline deadline_;
  std::shared_ptr<Rendezvous> rendezvous_;
  uint64_t call_ = 0;
  uint32_t fingerprint_ = 0;  // of all calls
  const std::shared_ptr<FabricRegions> regions_ = std::make_shared<FabricRegions>();
};

}  // namespace distill
