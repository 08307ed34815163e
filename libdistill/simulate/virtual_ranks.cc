#include "libdistill/simulate/virtual_ranks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/fabric_collectives.h"
#include "libdistill/comm/level_calls.h"
#include "libdistill/core/check.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// Nobody is lost in virtual time, and no real clock counts.
class VirtualRendezvous : public Rendezvous {
 public:
  absl::string_view kind() const override { return "virtual"; }
  absl::StatusOr<std::vector<std::string>> AllGather(const std::string&, const Deadline&) override {
    return absl::UnimplementedError("virtual ranks have met");
  }
};

std::vector<std::string> HostIds(int hosts, int ranks_per_host) {
  std::vector<std::string> ids;
  for (int rank = 0; rank < hosts * ranks_per_host; ++rank) ids.push_back(absl::StrCat(rank / ranks_per_host));
  return ids;
}

VirtualNetworkCosts NetworkCosts(const Cluster& cluster) {
  return {.latency = Microseconds(cluster.latency_us),
          .inside_latency = Microseconds(cluster.inside_latency_us),
          .post = Microseconds(cluster.post_us),
          .eager_bytes = cluster.eager_bytes,
          .handshake = cluster.handshake};
}

}  // namespace

class VirtualFabric : public CommBackend {
 public:
  // `handover`: from one thread to another.
  VirtualFabric(int rank, const CommLayout& layout, VirtualTime* time, VirtualTicks handover,
                std::unique_ptr<VirtualEndpoint> endpoint, std::shared_ptr<DeviceMemory> device,
                const CommTuning& tuning, const std::shared_ptr<Rendezvous>& rendezvous)
      : CommBackend(rank, layout.ranks),
        time_(*time),
        handover_(handover),
        endpoint_(std::move(endpoint)),
        work_(std::move(device)),
        calls_(this, endpoint_.get(), &work_, absl::InfiniteDuration(), Deadline::Never()),
        collectives_(this, endpoint_.get(), &work_, &calls_, FabricWriting::kNone, layout, tuning) {
    calls_.Start(rendezvous);
  }
  absl::string_view backend() const override { return "virtual fabric"; }
  bool takes_device_memory() const override { return true; }
  absl::Status Open() { return collectives_.Open(); }
  VirtualEndpoint* endpoint() { return endpoint_.get(); }

 protected:
  absl::Status Execute(const CommCall& call) override { return collectives_.Run(call); }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart&) override {
    return absl::UnimplementedError("virtual ranks do not split");
  }
  // FabricCommunicator's calls are made on its endpoint's thread: there and back.
  absl::Status OnCallThread(absl::FunctionRef<absl::Status()> call) override {
    time_.Advance(handover_);
    absl::Status status = call();
    time_.Advance(handover_);
    return status;
  }

 private:
  VirtualTime& time_;
  const VirtualTicks handover_;
  const std::unique_ptr<VirtualEndpoint> endpoint_;
  BufferWork work_;
  FabricCalls calls_;
  FabricCollectives collectives_;
};

// One rank's communicator, as HierarchicalCommunicator or FabricCommunicator would be.
struct VirtualRanks::Rank : CommBackend {
  Rank(int rank, int ranks) : CommBackend(rank, ranks) {}
  absl::string_view backend() const override { return "virtual"; }
  bool takes_device_memory() const override { return true; }
  absl::Status Execute(const CommCall& call) override { return flat != nullptr ? flat->Run(call) : levels->Run(call); }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart&) override {
    return absl::UnimplementedError("virtual ranks do not split");
  }

  std::shared_ptr<VirtualDevice> device;
  std::shared_ptr<Rendezvous> rendezvous = std::make_shared<VirtualRendezvous>();
  std::unique_ptr<CommBackend> flat;  // null in two levels
  std::unique_ptr<VirtualInside> inside;
  std::unique_ptr<LanePipeline> lanes;
  std::unique_ptr<LevelCalls> levels;
};

VirtualRanks::VirtualRanks(const Cluster& cluster, int hosts, const CommTuning& tuning, bool flat)
    : cluster_(cluster), layout_(HostIds(hosts, cluster.ranks_per_host)), network_(&time_, NetworkCosts(cluster)) {
  MakeNetwork();
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    Rank& made = *ranks_.emplace_back(std::make_unique<Rank>(rank, layout_.ranks()));
    made.device = std::make_shared<VirtualDevice>(
        &time_, VirtualDeviceCosts{cluster.memory_gigabytes_per_second, Microseconds(cluster.kernel_us)});
  }
  if (flat) {
    std::vector<int> all;
    for (int rank = 0; rank < layout_.ranks(); ++rank) all.push_back(rank);
    for (VirtualFabric* fabric : Join(all, tuning)) ranks_[static_cast<size_t>(fabric->rank())]->flat.reset(fabric);
    return;
  }
  for (int lane = 0; lane < cluster.ranks_per_host; ++lane) {
    for (VirtualFabric* fabric : Join(layout_.RanksAt(lane), tuning)) {
      Rank& rank = *ranks_[static_cast<size_t>(layout_.RanksOn(fabric->rank())[static_cast<size_t>(lane)])];
      rank.inside = std::make_unique<VirtualInside>(hosts_[static_cast<size_t>(fabric->rank())].get(), lane);
      LaneParts parts;
      parts.job = std::make_shared<JobCalls>(rank.rendezvous);
      parts.device = rank.device;
      parts.calls = std::make_unique<VirtualCalls>(&time_, fabric, Microseconds(cluster.handover_us));
      parts.lane.reset(fabric);
      rank.lanes = std::make_unique<LanePipeline>(std::move(parts));
      rank.levels = std::make_unique<LevelCalls>(&layout_, &rank, rank.inside.get(), rank.lanes.get(), rank.device);
    }
  }
}

VirtualRanks::~VirtualRanks() = default;

void VirtualRanks::MakeNetwork() {
  const int ranks = cluster_.ranks_per_host, cards = cluster_.cards_per_host;
  for (int host = 0; host < layout_.hosts(); ++host) {
    hosts_.push_back(std::make_unique<VirtualHost>(
        &time_, ranks,
        VirtualInsideCosts{cluster_.inside_gigabytes_per_second, Microseconds(cluster_.inside_latency_us)}));
    double slower = 1;
    for (const Straggler& one : cluster_.stragglers) slower = one.host == host ? one.slower : slower;
    std::vector<VirtualPipe*> out, in;
    for (int card = 0; card < cards; ++card) {
      for (std::vector<VirtualPipe*>* way : {&out, &in}) {
        way->push_back(network_.Add(cluster_.card_gigabytes_per_second / slower, Microseconds(cluster_.card_gap_us)));
      }
    }
    for (int local = 0; local < ranks; ++local) {
      VirtualNetwork::Place& place = places_.emplace_back();
      place.host = host;
      // Its own cards, those nearest to it, or the one that it shares with its neighbours.
      for (int i = 0; i < std::max(1, cards / ranks); ++i) {
        const int card = cards >= ranks ? local * (cards / ranks) + i : local * cards / ranks;
        place.out.push_back(out[static_cast<size_t>(card)]);
        place.in.push_back(in[static_cast<size_t>(card)]);
      }
      place.inside_out = network_.Add(cluster_.inside_gigabytes_per_second, 0);
      place.inside_in = network_.Add(cluster_.inside_gigabytes_per_second, 0);
    }
  }
}

// The caller owns what is returned, in the order of the members.
std::vector<VirtualFabric*> VirtualRanks::Join(const std::vector<int>& members, const CommTuning& tuning) {
  std::vector<std::string> host_ids;
  for (const int rank : members) host_ids.push_back(absl::StrCat(layout_.HostOf(rank)));
  const CommLayout layout = LayoutOf(HostLayout(host_ids));
  std::vector<VirtualEndpoint*>& peers = *peers_.emplace_back(std::make_unique<std::vector<VirtualEndpoint*>>());
  std::vector<VirtualFabric*> fabrics;
  for (int i = 0; i < layout.ranks; ++i) {
    const auto rank = static_cast<size_t>(members[static_cast<size_t>(i)]);
    auto endpoint = std::make_unique<VirtualEndpoint>(&network_, i, places_[rank], &peers);
    fabrics.push_back(new VirtualFabric(i, layout, &time_, Microseconds(cluster_.handover_us), std::move(endpoint),
                                        ranks_[rank]->device, tuning, ranks_[rank]->rendezvous));
    const absl::Status opened = fabrics.back()->Open();
    DISTILL_CHECK(opened.ok(), opened.ToString());
    peers.push_back(fabrics.back()->endpoint());
  }
  return fabrics;
}

absl::StatusOr<VirtualTicks> VirtualRanks::Run(const CommCall& call) {
  const VirtualTicks begin = time_.now();
  VirtualTicks end = begin;
  absl::Status first;
  for (const std::unique_ptr<Rank>& each : ranks_) {
    time_.Spawn([&, rank = each.get()] {
      for (const Straggler& one : cluster_.stragglers) {
        if (one.host == layout_.HostOf(rank->rank())) time_.Advance(Microseconds(one.late_us));
      }
      const absl::Status status = rank->Run(call);
      end = std::max(end, time_.now());
      if (first.ok()) first = status;
    });
  }
  const absl::Status ended = time_.Run();
  DISTILL_RETURN_IF_ERROR(first);
  DISTILL_RETURN_IF_ERROR(ended);
  return end - begin;
}

}  // namespace distill
