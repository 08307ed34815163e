// The ring over the fabric: one pipelined stream of messages to the next rank, one from the previous. Internal to
// comm/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libdistill/comm/fabric_credits.h"
#include "libdistill/comm/fabric_writes.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

struct RingPiece {
  char* data = nullptr;
  size_t bytes = 0;  // 0: nothing is sent, on either side
  const FabricMemory* memory = nullptr;
  int64_t at = 0;  // of the begin of the buffer that it is a part of
};

// One call's messages. Both neighbours derive the same numbers from the same arguments.
struct RingSchedule {
  int next = 0;
  int previous = 0;
  int64_t outgoing = 0;  // how many messages go to `next`; 0: none
  int64_t incoming = 0;
  // Message m may go out once incoming message m - lag was taken in; the first `lag` at once.
  int64_t lag = 0;
  // Incoming message m may arrive once outgoing message m - reuse has left: it overwrites what that one sent.
  int64_t reuse = 0;
  uint64_t tag = 0;  // of message 0; message m has tag + m
  // Where messages go one way, none of them empty: who keeps the sender from running ahead. Else null: each rank waits
  // for all others in the call.
  FabricCredits* credits = nullptr;
  // Not null: messages from number `first_written` on, each a finished part of the result at the same place on all
  // ranks, are written into the next rank's memory, if that says so. The call has been begun there.
  FabricWrites* writes = nullptr;
  int64_t first_written = 0;
};

// Messages under way, each way: enough to hide the fabric's latency on every rail, few enough to bound its buffers.
constexpr int64_t kRingWindow = 4;
constexpr int64_t RingWindow(int rails) { return std::clamp<int64_t>(2 * rails, kRingWindow, 4 * kRingWindow); }

class Ring {
 public:
  // Looked at while waiting: a deadline, or news of lost ranks. An error ends the call.
  using Check = absl::FunctionRef<absl::Status(const RingSchedule&, bool waits_for_previous)>;

  explicit Ring(MessageEndpoint* endpoint)
      : window_(RingWindow(endpoint->rails())),
        endpoint_(endpoint),
        sends_(static_cast<size_t>(window_)),
        receives_(static_cast<size_t>(window_)) {}

  int64_t window() const { return window_; }

  // Blocks until all messages have gone out and come in. `outgoing(m)`, `incoming(m)`: where message m lies;
  // `taken(m)`: message m has arrived, in order. After an error, withdraw the endpoint before the buffers go, or
  // their registrations.
  absl::Status Run(const RingSchedule& schedule, absl::FunctionRef<RingPiece(int64_t)> outgoing,
                   absl::FunctionRef<RingPiece(int64_t)> incoming, absl::FunctionRef<void(int64_t)> taken, Check check);

 private:
  class Credits;

  const int64_t window_;
  MessageEndpoint* const endpoint_;
  std::vector<FabricOperation> sends_;  // message m uses entry m % window_
  std::vector<FabricOperation> receives_;
};

}  // namespace distill
