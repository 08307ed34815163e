// How a hierarchical communicator is made of its parts, over one rendezvous: every rank takes part in as many exchanges
// as every other one, whichever parts it is in.
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/device_path.h"
#include "libdistill/comm/fabric_meeting.h"
#include "libdistill/comm/hierarchical_communicator.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// A rank that waits inside its host knows better who is late than one that waits for a lane: it speaks first.
constexpr absl::Duration kLaneGrace = absl::Seconds(1);

Setup PartOf(const Setup& setup, const std::shared_ptr<JobCalls>& job, const std::vector<int>& members) {
  Setup part = setup;
  part.rendezvous = std::make_shared<PartRendezvous>(job, members);
  part.world.world_size = static_cast<int>(members.size());
  part.hosts.clear();
  part.host_ids.clear();
  for (size_t i = 0; i < members.size(); ++i) {
    const size_t member = static_cast<size_t>(members[i]);
    if (members[i] == setup.world.rank) part.world.rank = static_cast<int>(i);
    part.hosts.push_back(setup.hosts[member]);
    part.host_ids.push_back(setup.host_ids[member]);
  }
  part.job_ranks = members;
  return part;
}

// What a lane on the fabric could do with this rank's device memory, tried with a page of it; `endpoint` gets where.
DeviceAccess TryDeviceMemory(const Setup& lane, absl::StatusOr<std::unique_ptr<FabricEndpoint>>& endpoint) {
  DeviceAccess access;
  if (const char* preference = std::getenv("DISTILL_FABRIC_HMEM")) access.preference = preference;
  if (access.preference == "0") return access;
  endpoint = OpenFabric(lane);
  absl::StatusOr<std::unique_ptr<CommMemory>> page = lane.device_memory->Allocate(4096);
  absl::Status status = endpoint.status();
  status.Update(page.status());
  if (status.ok()) status = (*endpoint)->Register((*page)->data(), 4096).status();
  if (!status.ok()) {
    access.why_not = std::string(status.message());
    return access;
  }
  access.provider = (*endpoint)->provider();
  const absl::Status reached = lane.device_memory->CheckNetworkAccess();
  const bool direct = (*endpoint)->is_direct() && reached.ok();
  access.kind = direct ? DeviceAccess::Kind::kDirect : DeviceAccess::Kind::kCopies;
  if (!reached.ok()) access.why_not = std::string(reached.message());
  if (!(*endpoint)->is_direct()) {
    access.why_not =
        absl::StrCat("libfabric's provider ", access.provider, " would copy it through host memory itself");
  }
  return access;
}

// The lane for device memory; null where every rank comes to know that it goes through host memory.
absl::StatusOr<std::unique_ptr<FabricCommunicator>> MakeDeviceLane(const Setup& job, Setup lane) {
  absl::StatusOr<std::unique_ptr<FabricEndpoint>> endpoint = absl::UnavailableError("not tried");
  Setup all = job;
  DISTILL_ASSIGN_OR_RETURN(const std::vector<std::string> told, all.Exchange(TryDeviceMemory(lane, endpoint).Encode()));
  std::vector<DeviceAccess> ranks;
  for (const std::string& one : told) {
    DISTILL_ASSIGN_OR_RETURN(ranks.emplace_back(), DeviceAccess::Decode(one));
  }
  absl::StatusOr<DevicePath> path = ChooseDevicePath(ranks, job.Names());
  if (!path.ok()) return SharedError(path.status());
  if (job.world.rank == 0) {
    LogInfo(absl::StrCat("hierarchy: device memory crosses between the hosts ",
                         path->over_fabric ? "over the fabric itself (" : "through pinned host memory (", path->why,
                         ")"));
  }
  if (!path->over_fabric) return nullptr;
  return FabricCommunicator::Join(std::move(lane), std::move(endpoint));
}

absl::Status MakeLanes(const Setup& setup, HierarchicalParts& parts) {
  const HostLayout& layout = parts.layout;
  Setup lane = PartOf(setup, parts.lane.job, layout.RanksAt(layout.LocalRankOf(setup.world.rank)));
  lane.options.timeout += kLaneGrace;
  const bool has_lane = lane.world.world_size == layout.hosts();
  if (parts.lane.device != nullptr) {
    Setup device_lane = lane;
    device_lane.device_memory = parts.lane.device;
    DISTILL_ASSIGN_OR_RETURN(parts.lane.device_lane, MakeDeviceLane(setup, std::move(device_lane)));
  }
  DISTILL_ASSIGN_OR_RETURN(parts.lane.lane, CreateFabricCommunicator(std::move(lane)));
  if (!has_lane) {
    parts.lane.lane.reset();
    parts.lane.device_lane.reset();
    return absl::OkStatus();
  }
  parts.lane.lane->BecomePart();
  if (parts.lane.device_lane != nullptr) parts.lane.device_lane->BecomePart();
  DISTILL_ASSIGN_OR_RETURN(parts.lane.calls, AsyncCalls::Start(parts.lane.lane.get()));
  return absl::OkStatus();
}

absl::StatusOr<HierarchicalParts> MakeParts(const Setup& setup, std::shared_ptr<DeviceMemory> device,
                                            absl::FunctionRef<MadeCommunicator(Setup)> make_inside) {
  HierarchicalParts parts;
  parts.layout = HostLayout(setup.host_ids);
  parts.lane.job = std::make_shared<JobCalls>(setup.rendezvous);
  parts.lane.device = std::move(device);
  const HostLayout& layout = parts.layout;
  Setup inside = PartOf(setup, parts.lane.job, layout.RanksOn(layout.HostOf(setup.world.rank)));
  inside.one_host = true;
  DISTILL_ASSIGN_OR_RETURN(parts.inside, make_inside(std::move(inside)));
  parts.inside->BecomePart();
  DISTILL_RETURN_IF_ERROR(MakeLanes(setup, parts));
  std::vector<int> all;
  for (int rank = 0; rank < layout.ranks(); ++rank) all.push_back(rank);
  Setup flat = setup;
  flat.rendezvous = std::make_shared<PartRendezvous>(parts.lane.job, std::move(all));
  flat.options.timeout += kLaneGrace;
  DISTILL_ASSIGN_OR_RETURN(parts.flat, CreateFabricCommunicator(std::move(flat)));
  parts.flat->BecomePart();
  return parts;
}

// Every rank takes part in the exchanges of shared memory, also one that is alone on its host.
MadeCommunicator MakeInsideOnHost(Setup inside) {
  const bool alone = inside.world.world_size == 1;
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommBackend> made, CreateShmCommunicator(std::move(inside)));
  return alone ? CreateAloneBackend() : std::move(made);
}

}  // namespace

MadeCommunicator CreateHierarchicalCommunicatorOf(Setup setup, std::shared_ptr<DeviceMemory> device,
                                                  absl::FunctionRef<MadeCommunicator(Setup)> make_inside) {
  absl::StatusOr<HierarchicalParts> parts = MakeParts(setup, std::move(device), make_inside);
  // Also a rank that has failed alone, say for want of a thread, ends the others.
  if (!parts.ok()) setup.rendezvous->Announce(parts.status());
  DISTILL_RETURN_IF_ERROR(parts.status());
  if (setup.world.rank == 0) {
    const int lanes = parts->layout.fewest();
    LogInfo(absl::StrCat("hierarchy: ", parts->layout.Describe(), ", ", lanes, lanes == 1 ? " lane" : " lanes",
                         " between the hosts"));
  }
  return std::make_unique<HierarchicalCommunicator>(setup, *std::move(parts));
}

MadeCommunicator CreateHierarchicalCommunicator(Setup setup, bool gpus) {
  if (!gpus) return CreateHierarchicalCommunicatorOf(std::move(setup), nullptr, &MakeInsideOnHost);
  absl::StatusOr<std::shared_ptr<DeviceMemory>> device =
      DeviceMemory::Open(setup.options.device_index, setup.options.timeout);
  DISTILL_RETURN_IF_ERROR(setup.ExchangeStatus(device.status()));
  return CreateHierarchicalCommunicatorOf(std::move(setup), *std::move(device), &CreateNcclCommunicator);
}

}  // namespace distill
