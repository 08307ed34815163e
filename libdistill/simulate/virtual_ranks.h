// The ranks of a cluster in virtual time: comm/'s own code (LevelCalls, LanePipeline, FabricCollectives, FabricRing,
// Exchange and CommTuning) over a virtual network, virtual GPUs and a virtual NCCL. Made once, for any number of calls.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/host_layout.h"
#include "libdistill/comm/tuning.h"
#include "libdistill/simulate/cluster.h"
#include "libdistill/simulate/virtual_host.h"
#include "libdistill/simulate/virtual_network.h"
#include "libdistill/simulate/virtual_time.h"

namespace distill {

// The communicator of some ranks over the virtual network.
class VirtualFabric;

class VirtualRanks {
 public:
  // `hosts` times `cluster.ranks_per_host` ranks. `flat`: all in one communicator over the network; else in two levels.
  VirtualRanks(const Cluster& cluster, int hosts, const CommTuning& tuning, bool flat);
  ~VirtualRanks();

  // Every rank makes the call at time 0, but for those that are late; blocks until all are through. The time of the
  // last one, or the error of the first that had one.
  [[nodiscard]] absl::StatusOr<VirtualTicks> Run(const CommCall& call);
  const VirtualNetwork& network() const { return network_; }

 private:
  struct Rank;
  VirtualNetwork::Place PlaceOf(int rank);
  void MakeNetwork();
  std::vector<VirtualFabric*> Join(const std::vector<int>& members, const CommTuning& tuning);

  const Cluster cluster_;
  const HostLayout layout_;
  VirtualTime time_;
  VirtualNetwork network_;
  std::vector<VirtualNetwork::Place> places_;
  std::vector<std::unique_ptr<VirtualHost>> hosts_;
  std::vector<std::unique_ptr<std::vector<VirtualEndpoint*>>> peers_;  // of each communicator
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace distill
