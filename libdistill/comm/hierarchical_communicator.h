// Internal to comm/: see hierarchical_communicator.cc for what moves where.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "libdistill/comm/async.h"
#include "libdistill/comm/device_memory.h"
#include "libdistill/comm/fabric_communicator.h"
#include "libdistill/comm/host_layout.h"
#include "libdistill/comm/lane_cut.h"
#include "libdistill/comm/part_rendezvous.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/split.h"

namespace distill {

// The communicators that it is made of: none has a meeting, a heartbeat or a watchdog of its own.
struct HierarchicalParts {
  HostLayout layout;
  std::shared_ptr<JobCalls> job;
  std::unique_ptr<CommBackend> inside;  // the ranks of this host, by their local ranks
  // The ranks with this one's local rank, one of each host, by hosts; null where some host has fewer ranks.
  std::unique_ptr<CommBackend> lane;
  std::unique_ptr<CommBackend> flat;     // all ranks
  std::shared_ptr<DeviceMemory> device;  // with GPUs
  // The same ranks as `lane`, for device memory; null where that crosses through host memory.
  std::unique_ptr<FabricCommunicator> device_lane;
  std::unique_ptr<AsyncCalls> lane_calls;
};

class HierarchicalCommunicator : public CommBackend {
 public:
  HierarchicalCommunicator(const Setup& setup, HierarchicalParts parts);
  ~HierarchicalCommunicator() override;

  absl::string_view backend() const override { return name_; }
  bool takes_device_memory() const override { return inside_->takes_device_memory(); }
  absl::Status CheckPeers() override;

 protected:
  absl::Status Execute(const CommCall& call) override;
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override;
  absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes, Placement placement) override;
  void Abandon(const absl::Status& error) override;
  bool asks_who_is_late() const override { return true; }

 private:
  // What a lane is given of a segment and what it gives; nulls on ranks without a part in it. Of device memory it is
  // copied to a slot that the fabric can use, and from there, where the two lie so far from the slot's begin.
  struct LanePart {
    char* in = nullptr;
    int64_t in_bytes = 0;
    char* out = nullptr;
    int64_t out_bytes = 0;
    int64_t in_at = 0;
    int64_t out_at = 0;
    bool empty() const { return in == nullptr && out == nullptr; }
  };
  // The communicator of a lane, and the buffers of its call.
  struct LaneCall {
    int64_t segment;
    Communicator& comm;
    char* in;
    char* out;
    Placement placement;
  };
  // What happens to a segment: inside the host, then across on the lane's thread (on ranks that have a part), then
  // inside again.
  struct Steps {
    absl::FunctionRef<absl::Status(int64_t segment)> before;
    absl::FunctionRef<LanePart(int64_t segment)> part;
    absl::FunctionRef<absl::Status(const LaneCall& call)> across;
    absl::FunctionRef<absl::Status(int64_t segment)> after;
  };
  // Those under way: two segments at a time.
  using LaneCalls = std::array<std::optional<AsyncCall>, 2>;
  // `slot_bytes`: what the longest part takes.
  absl::Status Pipeline(int64_t segments, int64_t slot_bytes, Placement placement, const Steps& steps);
  absl::Status RunSegments(int64_t segments, Placement placement, const Steps& steps, LaneCalls& calls);
  absl::Status Before(int64_t segment, Placement placement, const Steps& steps);
  absl::Status Across(int64_t segment, Placement placement, const Steps& steps);
  absl::Status After(int64_t segment, Placement placement, const Steps& steps);

  // Whether a call goes between all ranks and not in levels.
  bool GoesFlat(const CommCall& call) const;
  absl::Status AllReduceInLevels(const CommCall& call);
  absl::Status ReduceInLevels(const CommCall& call);
  absl::Status ReduceScatterInLevels(const CommCall& call);
  absl::Status BroadcastInLevels(const CommCall& call);
  absl::Status AllGatherInLevels(const CommCall& call);
  absl::Status MeetInLevels();

  int host() const { return layout_.HostOf(rank()); }
  int local_rank() const { return layout_.LocalRankOf(rank()); }
  int local_size() const { return inside_->world_size(); }
  // Whether this rank carries a lane in a call that uses so many.
  bool Carries(int lanes) const { return lane_ != nullptr && local_rank() < lanes; }
  bool OnThisHost(int other) const { return layout_.HostOf(other) == host(); }

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
  int LaneOf(int other) const { return layout_.LocalRankOf(other) % lanes_; }
  int SeatOf(int other) const { return layout_.LocalRankOf(other) / lanes_; }
  int64_t seats() const { return (layout_.most() + lanes_ - 1) / lanes_; }

  // The part of a longest segment of a call that every lane carries a piece of.
  static int64_t PieceBytes(const LaneCut& cut) { return (cut.per_segment / cut.lanes + cut.lanes) * cut.size; }
  // Where device memory waits for the fabric.
  absl::Status FitStage(int64_t slot_bytes);
  char* StageSlot(int64_t segment) const { return stage_->data() + segment % 2 * (stage_->bytes() / 2); }
  // A call on device memory that goes flat, through host memory as a whole.
  absl::Status ThroughHost(const CommCall& call);

  // The second of two buffers is aligned as well as the first.
  static int64_t RoundUp(int64_t bytes) { return (bytes + 255) / 256 * 256; }

  // Two buffers that alternate with the segments, of at least so many bytes each.
  struct Slots {
    char* at(int64_t segment) const { return memory->data() + segment % 2 * (memory->bytes() / 2); }
    // `device`: where they are; null: in the host.
    absl::Status Fit(int64_t wanted, const std::shared_ptr<DeviceMemory>& device);
    std::unique_ptr<CommMemory> memory;
  };
  struct Scratch {
    Slots out, in, local, out_of_lane;
  };
  Scratch& ScratchIn(Placement placement) { return placement.on_device ? device_scratch_ : host_scratch_; }
  std::shared_ptr<DeviceMemory> DeviceOf(Placement placement) const { return placement.on_device ? device_ : nullptr; }

  const SplitSeed seed_;
  const std::string name_;
  const HostLayout layout_;
  const CommLayout costs_layout_;
  const int lanes_;
  const std::shared_ptr<JobCalls> job_;
  const std::shared_ptr<DeviceMemory> device_;  // null without GPUs
  Scratch host_scratch_, device_scratch_;
  std::unique_ptr<CommMemory> stage_;  // two slots that the fabric can use; made by the first call that needs them
  std::unique_ptr<CommBackend> inside_;
  std::unique_ptr<CommBackend> lane_;
  std::unique_ptr<FabricCommunicator> device_lane_;  // null: `lane_` carries what was copied to host memory
  std::unique_ptr<CommBackend> flat_;
  std::unique_ptr<AsyncCalls> lane_calls_;  // goes first: it uses the lane
};

}  // namespace distill
