// The calls over the fabric whose messages ring.h moves: collectives around the ring of all ranks or along it, and
// messages directly between two ranks. Internal to comm/.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libdistill/comm/buffer_work.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/comm/fabric_calls.h"
#include "libdistill/comm/fabric_credits.h"
#include "libdistill/comm/fabric_cut.h"
#include "libdistill/comm/fabric_meeting.h"
#include "libdistill/comm/fabric_writes.h"
#include "libdistill/comm/ring.h"

namespace distill {

// Used on the endpoint's thread, in its calls.
class FabricRing {
 public:
  // What is pointed at outlives this.
  FabricRing(const Communicator* ranks, MessageEndpoint* endpoint, BufferWork* work, FabricCalls* calls,
             FabricWriting writing)
      : ranks_(*ranks),
        work_(*work),
        calls_(*calls),
        writing_(writing),
        chunk_bytes_(work->on_device() ? kDeviceChunkBytes : kFabricChunkBytes),
        rails_(endpoint->rails()),
        ring_(endpoint),
        credits_(endpoint, ranks->rank()),
        writes_(endpoint),
        sent_(static_cast<size_t>(ranks->world_size())),
        received_(sent_.size()) {}

  // Before the first call, and after the last one, once the endpoint is withdrawn.
  absl::Status Open();
  void Close();

  // A collective, which `calls` has begun; all-to-all and the barrier go directly from rank to rank.
  absl::Status Run(const CommCall& call);
  // A message of a pair goes in chunks like a collective's data, behind a MessageHeader.
  absl::Status Move(const CommCall& call);
  absl::Status Meet(const CommCall& barrier = {});
  // Of all calls whose messages go one way.
  FabricCredits* credits() { return &credits_; }

 private:
  int rank() const { return ranks_.rank(); }
  int64_t Modulo(int64_t block) const {
    return (block % ranks_.world_size() + ranks_.world_size()) % ranks_.world_size();
  }
  absl::Status AllReduce(const CommCall& call);
  absl::Status Reduce(const CommCall& call);
  absl::Status ReduceScatter(const CommCall& call);
  absl::Status AllGather(const CommCall& call);
  absl::Status Broadcast(const CommCall& call);
  absl::Status AllToAll(const CommCall& call);
  absl::Status CheckPair(int peer, bool out, absl::Time& noticed);

  RingSchedule ScheduleOf(int64_t steps, int64_t chunks) const;
  // Of a call whose chunks go one way: from this rank, unless `outgoing` is false, and to it, unless `incoming` is.
  RingSchedule OneWay(int64_t chunks, bool outgoing, bool incoming);
  // Has finished blocks, which are messages from number `first` on, written into the next rank's `to`, if they are to
  // be where they are so long.
  void WriteFrom(int64_t first, const FabricCut& cut, const FabricRegion& to, RingSchedule& schedule);
  absl::Status RunRing(const RingSchedule& schedule, absl::FunctionRef<RingPiece(int64_t)> outgoing,
                       absl::FunctionRef<RingPiece(int64_t)> incoming, absl::FunctionRef<void(int64_t)> taken);
  FabricCut Cut(int64_t count, int64_t blocks, DType dtype) const {
    const int64_t block_bytes = (count + blocks - 1) / blocks * SizeOf(dtype);
    return FabricCut(count, blocks, SizeOf(dtype), RailChunkBytes(block_bytes, rails_, chunk_bytes_));
  }
  // Where message m lands before it is added to this rank's own data.
  RingPiece Landing(int64_t m, int64_t elements, int64_t size) const {
    return {landing_.region.data + m % ring_.window() * chunk_bytes_, static_cast<size_t>(elements * size),
            &landing_.region.own};
  }

  const Communicator& ranks_;
  BufferWork& work_;
  FabricCalls& calls_;
  const FabricWriting writing_;
  const int64_t chunk_bytes_;
  const int rails_;
  Ring ring_;
  FabricCredits credits_;
  FabricWrites writes_;
  FabricScratch landing_, partial_;
  // How many messages went to and came from each rank.
  std::vector<uint64_t> sent_, received_;
};

}  // namespace distill
