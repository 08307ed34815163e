// The collectives in two levels: see level_calls.cc for what moves where. Internal to comm/.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "libdistill/comm/backend.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/device_memory.h"
#include "libdistill/comm/host_layout.h"
#include "libdistill/comm/lane_cut.h"
#include "libdistill/comm/lane_pipeline.h"

namespace distill {

class LevelCalls {
 public:
  // What is pointed at outlives this: all ranks, the ranks of this host by their local ranks, and the lane. `device`:
  // null without GPUs.
  LevelCalls(const HostLayout* layout, const Communicator* ranks, CommBackend* inside, LanePipeline* lanes,
             std::shared_ptr<DeviceMemory> device)
      : layout_(*layout), ranks_(*ranks), inside_(*inside), lanes_(*lanes), device_(std::move(device)) {}

  // Any collective but all-to-all.
  [[nodiscard]] absl::Status Run(const CommCall& call);

 private:
  absl::Status AllReduce(const CommCall& call);
  absl::Status Reduce(const CommCall& call);
  absl::Status ReduceScatter(const CommCall& call);
  absl::Status Broadcast(const CommCall& call);
  absl::Status AllGather(const CommCall& call);
  absl::Status Meet(const CommCall& call);

  int host() const { return layout_.HostOf(ranks_.rank()); }
  int local_rank() const { return layout_.LocalRankOf(ranks_.rank()); }
  // Whether this rank carries a lane in a call that uses so many.
  bool Carries(int lanes) const { return lanes_.lane() != nullptr && local_rank() < lanes; }

  // Reduces a segment inside the host, piece by piece: `piece` is where this rank's own goes, if it has a lane in this
  // call. Does not divide.
  absl::Status ReduceToLanes(const CommCall& call, const LaneCut& cut, int64_t segment, char* piece);
  // Every rank of the host gets all pieces of the segment, which lie in the output on the ranks of their lanes.
  absl::Status SpreadFromLanes(const CommCall& call, const LaneCut& cut, int64_t segment);
  // The root, on this host, gets all pieces of the segment; `piece` is this rank's own.
  absl::Status CollectAtRoot(const CommCall& call, const LaneCut& cut, int64_t segment, const char* piece);
  // An average's one division, of the lane's sums over all ranks.
  absl::Status Divide(const CommCall& call, const LaneCall& lane, int64_t count) const;
  // Of memory on this rank, without overlap.
  absl::Status Move(void* to, const void* from, int64_t bytes, Placement placement) const;
  // For blocks that go with ranks, not with lanes: the lane that carries a rank's block, and the block's number among
  // those of its host in that lane, of which every host has so many, some of them empty.
  int LaneOf(int other) const { return layout_.LocalRankOf(other) % lane_count_; }
  int SeatOf(int other) const { return layout_.LocalRankOf(other) / lane_count_; }
  int64_t seats() const { return (layout_.most() + lane_count_ - 1) / lane_count_; }

  struct Scratch {
    SegmentSlots out, in, local, out_of_lane;
  };
  Scratch& ScratchIn(Placement placement) { return placement.on_device ? device_scratch_ : host_scratch_; }
  std::shared_ptr<DeviceMemory> DeviceOf(Placement placement) const { return placement.on_device ? device_ : nullptr; }

  const HostLayout& layout_;
  const int lane_count_ = layout_.fewest();
  const Communicator& ranks_;
  CommBackend& inside_;
  LanePipeline& lanes_;
  const std::shared_ptr<DeviceMemory> device_;
  Scratch host_scratch_, device_scratch_;
};

}  // namespace distill
