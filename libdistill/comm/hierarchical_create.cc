// How a hierarchical communicator is made of its parts, over one rendezvous: every rank takes part in as many exchanges
// as every other one, whichever parts it is in.
#include "absl/strings/str_cat.h"
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

absl::StatusOr<HierarchicalParts> MakeParts(const Setup& setup, bool gpus) {
  HierarchicalParts parts;
  parts.layout = HostLayout(setup.host_ids);
  parts.job = std::make_shared<JobCalls>(setup.rendezvous);
  const HostLayout& layout = parts.layout;
  Setup inside = PartOf(setup, parts.job, layout.RanksOn(layout.HostOf(setup.world.rank)));
  inside.one_host = true;
  const bool alone = inside.world.world_size == 1 && !gpus;
  DISTILL_ASSIGN_OR_RETURN(parts.inside,
                           gpus ? CreateNcclCommunicator(std::move(inside)) : CreateShmCommunicator(std::move(inside)));
  if (alone) parts.inside = CreateAloneCommunicator();
  parts.inside->BecomePart();
  Setup lane = PartOf(setup, parts.job, layout.RanksAt(layout.LocalRankOf(setup.world.rank)));
  lane.options.timeout += kLaneGrace;
  const bool has_lane = lane.world.world_size == layout.hosts();
  DISTILL_ASSIGN_OR_RETURN(parts.lane, CreateFabricCommunicator(std::move(lane)));
  if (has_lane) {
    parts.lane->BecomePart();
    DISTILL_ASSIGN_OR_RETURN(parts.lane_calls, AsyncCalls::Start(parts.lane.get()));
  } else {
    parts.lane.reset();
  }
  std::vector<int> all;
  for (int rank = 0; rank < layout.ranks(); ++rank) all.push_back(rank);
  Setup flat = setup;
  flat.rendezvous = std::make_shared<PartRendezvous>(parts.job, std::move(all));
  flat.options.timeout += kLaneGrace;
  DISTILL_ASSIGN_OR_RETURN(parts.flat, CreateFabricCommunicator(std::move(flat)));
  parts.flat->BecomePart();
  return parts;
}

}  // namespace

MadeCommunicator CreateHierarchicalCommunicator(Setup setup, bool gpus) {
  absl::StatusOr<HierarchicalParts> parts = MakeParts(setup, gpus);
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

absl::StatusOr<std::unique_ptr<CommMemory>> HierarchicalCommunicator::DoAllocate(int64_t bytes) {
  job_->Next();
  return inside_->Allocate(bytes);
}

absl::StatusOr<std::unique_ptr<Communicator>> HierarchicalCommunicator::DoSplit(const SplitPart& part) {
  return SplitFrom(*this, seed_, part.members, part.rank,
                   [gpus = takes_device_memory()](Setup setup) -> MadeCommunicator {
                     if (setup.one_host && gpus) return CreateNcclCommunicator(std::move(setup));
                     if (setup.world.world_size == 1) return CreateAloneCommunicator();
                     if (setup.one_host) return CreateShmCommunicator(std::move(setup));
                     const bool levels = gpus || HostLayout(setup.host_ids).most() > 1;
                     return levels ? CreateHierarchicalCommunicator(std::move(setup), gpus)
                                   : CreateFabricCommunicator(std::move(setup));
                   });
}

}  // namespace distill
