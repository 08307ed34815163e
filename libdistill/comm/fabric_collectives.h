// The calls of a communicator over the fabric, whichever algorithm carries them out: on the ring (fabric_ring.h), or by
// the lists of exchange.h where the table of costs prefers them to it. It knows endpoints by their interface alone, so
// that simulate/ runs this very code in virtual time. Internal to comm/.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "libdistill/comm/buffer_work.h"
#include "libdistill/comm/exchange.h"
#include "libdistill/comm/fabric_calls.h"
#include "libdistill/comm/fabric_meeting.h"
#include "libdistill/comm/fabric_ring.h"
#include "libdistill/comm/tuning.h"
#include "libdistill/transport/message_endpoint.h"

namespace distill {

// Used on the endpoint's thread, in its calls.
class FabricCollectives {
 public:
  // What is pointed at outlives this. `tuning` and `layout`: the same on every rank.
  FabricCollectives(const Communicator* ranks, MessageEndpoint* endpoint, BufferWork* work, FabricCalls* calls,
                    FabricWriting writing, const CommLayout& layout, const CommTuning& tuning)
      : ranks_(*ranks),
        endpoint_(*endpoint),
        work_(*work),
        calls_(*calls),
        layout_(layout),
        tuning_(tuning),
        ring_(ranks, endpoint, work, calls, writing),
        exchange_(endpoint, work) {}

  // Before the first call, and after the last one, once the endpoint is withdrawn.
  [[nodiscard]] absl::Status Open() { return ring_.Open(); }
  void Close();

  // One call of any operation.
  [[nodiscard]] absl::Status Run(const CommCall& call);
  // The ranks wait for each other, outside of any call.
  [[nodiscard]] absl::Status Meet() { return ring_.Meet(); }

 private:
  CommAlgorithm Choose(const CommCall& call) const;
  // Of the longest message, for so many bytes in all.
  int64_t ChunkBytes(CommAlgorithm algorithm, int64_t bytes) const;
  absl::Status RunExchange(CommAlgorithm algorithm, const CommCall& call);

  const Communicator& ranks_;
  MessageEndpoint& endpoint_;
  BufferWork& work_;
  FabricCalls& calls_;
  const CommLayout layout_;
  const CommTuning tuning_;
  FabricRing ring_;
  Exchange exchange_;
  FabricScratch exchange_landing_;
};

}  // namespace distill
