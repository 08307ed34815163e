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
#include "libdistill/comm/device_stage.h"
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
  std::unique_ptr<Communicator> inside;  // the ranks of this host, by their local ranks
  // The ranks with this one's local rank, one of each host, by hosts; null where some host has fewer ranks.
  std::unique_ptr<Communicator> lane;
  std::unique_ptr<Communicator> flat;  // all ranks
  std::unique_ptr<AsyncCalls> lane_calls;
};

class HierarchicalCommunicator : public Communicator {
 public:
  HierarchicalCommunicator(const Setup& setup, HierarchicalParts parts);
  ~HierarchicalCommunicator() override;

  absl::string_view backend() const override { return name_; }
  bool takes_device_memory() const override { return inside_->takes_device_memory(); }
  absl::Status CheckPeers() override;

 protected:
  absl::Status DoAllReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                           Placement placement) override;
  absl::Status DoReduceScatter(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op,
                               Placement placement) override;
  absl::Status DoAllGather(const void* send, void* receive, int64_t count, DType dtype, Placement placement) override;
  absl::Status DoBroadcast(void* buffer, int64_t count, DType dtype, int root, Placement placement) override;
  absl::Status DoReduce(const void* send, void* receive, int64_t count, DType dtype, ReduceOp op, int root,
                        Placement placement) override;
  absl::Status DoAllToAll(const void* send, void* receive, int64_t count, DType dtype, Placement placement) override;
  absl::Status DoBarrier() override;
  absl::Status DoSend(const void* data, int64_t count, DType dtype, int peer, Placement placement) override;
  absl::Status DoReceive(void* data, int64_t count, DType dtype, int peer, Placement placement) override;
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override;
  absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes) override;
  void Abandon(const absl::Status& error) override;

 private:
  // What happens to a segment: inside the host, then across on the lane's thread (on ranks that have a lane), then
  // inside again.
  struct Steps {
    absl::FunctionRef<absl::Status(int64_t segment)> before;
    absl::FunctionRef<absl::Status(int64_t segment)> across;
    absl::FunctionRef<absl::Status(int64_t segment)> after;
  };
  // Those under way: two segments at a time.
  using LaneCalls = std::array<std::optional<AsyncCall>, 2>;
  absl::Status Pipeline(int64_t segments, const Steps& steps);
  absl::Status RunSegments(int64_t segments, const Steps& steps, LaneCalls& calls);

  int host() const { return layout_.HostOf(rank()); }
  int local_rank() const { return layout_.LocalRankOf(rank()); }
  int local_size() const { return inside_->world_size(); }
  // Whether this rank carries a lane in a call that uses so many.
  bool Carries(int lanes) const { return lane_ != nullptr && local_rank() < lanes; }
  bool OnThisHost(int other) const { return layout_.HostOf(other) == host(); }

  // Reduces a segment inside the host, piece by piece: `piece` is where this rank's own goes, if it has a lane in this
  // call. Does not divide.
  absl::Status ReduceToLanes(const LaneCut& cut, int64_t segment, const char* send, char* piece, DType dtype,
                             ReduceOp op, Placement placement);
  // Every rank of the host gets all pieces of the segment, which lie in `data` on the ranks of their lanes.
  absl::Status SpreadFromLanes(const LaneCut& cut, int64_t segment, char* data, DType dtype, Placement placement);
  // The root, on this host, gets all pieces of the segment; `piece` is this rank's own.
  absl::Status CollectAtRoot(const LaneCut& cut, int64_t segment, const char* piece, char* receive, DType dtype,
                             int root);
  // An average's one division, of sums over all ranks.
  void Divide(void* data, int64_t count, DType dtype, ReduceOp op) const;
  // For blocks that go with ranks, not with lanes: the lane that carries a rank's block, and the block's number among
  // those of its host in that lane, of which every host has so many, some of them empty.
  int LaneOf(int other) const { return layout_.LocalRankOf(other) % lanes_; }
  int SeatOf(int other) const { return layout_.LocalRankOf(other) / lanes_; }
  int64_t seats() const { return (layout_.most() + lanes_ - 1) / lanes_; }

  absl::Status OpenStage();
  absl::Status AllReduceOnDevice(const LaneCut& cut, const char* send, char* receive, DType dtype, ReduceOp op,
                                 Placement placement);
  // A call on device memory that goes through host memory as a whole.
  absl::Status ThroughHost(const void* send, int64_t send_bytes, void* receive, int64_t receive_bytes,
                           Placement placement, absl::FunctionRef<absl::Status(const void* send, void* receive)> call);

  // Two buffers that alternate with the segments, of at least so many bytes each.
  struct Slots {
    char* at(int64_t segment) { return bytes.data() + segment % 2 * size; }
    void Fit(int64_t wanted) {
      size = std::max(size, wanted);
      bytes.resize(std::max(bytes.size(), static_cast<size_t>(2 * size)));
    }
    std::vector<char> bytes;
    int64_t size = 0;
  };

  const SplitSeed seed_;
  const std::string name_;
  const HostLayout layout_;
  const int lanes_;
  const std::shared_ptr<JobCalls> job_;
  Slots out_, in_, local_, out_of_lane_;
  std::unique_ptr<DeviceStage> stage_;  // made by the first call that needs it
  std::unique_ptr<Communicator> inside_;
  std::unique_ptr<Communicator> lane_;
  std::unique_ptr<Communicator> flat_;
  std::unique_ptr<AsyncCalls> lane_calls_;  // goes first: it uses the lane
};

}  // namespace distill
