// A job of several hosts with several ranks: collectives in two levels (level_calls.h), and what concerns two ranks.
// Internal to comm/.
#pragma once

#include <memory>
#include <string>

#include "libdistill/comm/host_layout.h"
#include "libdistill/comm/lane_pipeline.h"
#include "libdistill/comm/level_calls.h"
#include "libdistill/comm/part_rendezvous.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/split.h"

namespace distill {

// The communicators that it is made of: none has a meeting, a heartbeat or a watchdog of its own. They share
// the job's rendezvous, by which a loss anywhere ends all of them, and name ranks as the job does.
struct HierarchicalParts {
  HostLayout layout;
  std::unique_ptr<CommBackend> inside;  // the ranks of this host, by their local ranks
  LaneParts lane;
  std::unique_ptr<CommBackend> flat;  // all ranks
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
  // Whether a call goes between all ranks and not in levels.
  bool GoesFlat(const CommCall& call) const;
  // A call on device memory that goes flat, through host memory as a whole.
  absl::Status ThroughHost(const CommCall& call);

  const SplitSeed seed_;
  const std::string name_;
  const HostLayout layout_;
  const CommLayout costs_layout_;
  const std::shared_ptr<JobCalls> job_;
  const std::shared_ptr<DeviceMemory> device_;  // null without GPUs
  std::unique_ptr<CommBackend> inside_;
  std::unique_ptr<CommBackend> flat_;
  LanePipeline lane_;
  LevelCalls levels_;
};

}  // namespace distill
