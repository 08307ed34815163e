// A job of several hosts with several ranks: collectives in two levels (level_calls.h), and what concerns two ranks. It
// is made of its parts over one rendezvous: every rank takes part in as many exchanges as every other one, whichever
// parts it is in.
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/device_path.h"
#include "libdistill/comm/fabric_meeting.h"
#include "libdistill/comm/flat_calls.h"
#include "libdistill/comm/lane_pipeline.h"
#include "libdistill/comm/level_calls.h"
#include "libdistill/comm/part_rendezvous.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/split.h"
#include "libdistill/core/log.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// The communicators that it is made of: none has a meeting, a heartbeat or a watchdog of its own. They share
// the job's rendezvous, by which a loss anywhere ends all of them, and name ranks as the job does.
struct HierarchicalParts {
  HostLayout layout;
  std::unique_ptr<CommBackend> inside;  // the ranks of this host, by their local ranks
  LaneParts lane;
  std::unique_ptr<FlatCalls> flat;  // all ranks
};

class HierarchicalCommunicator : public CommBackend {
 public:
  HierarchicalCommunicator(const Setup& setup, HierarchicalParts parts);
  // Whoever is still in a call hears that this rank has done its part in it.
  ~HierarchicalCommunicator() override { job_->rendezvous().NoteFinishedCalls(job_->call()); }

  absl::string_view backend() const override { return name_; }
  bool takes_device_memory() const override { return inside_->takes_device_memory(); }
  const CommTuning* tuning() const override { return &lane_tuning_; }
  const CommTuning* flat_tuning() const override { return &tuning_; }
  absl::Status CheckPeers() override {
    DISTILL_RETURN_IF_ERROR(inside_->CheckPeers());
    return job_->rendezvous().CheckPeers();
  }

 protected:
  absl::Status Execute(const CommCall& call) override;
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override;
  absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes, Placement placement) override;
  void Abandon(const absl::Status& error) override {
    job_->End(error);
    inside_->EndPart(error);  // else this rank would seem to have left in order
    lane_.Close();
    flat_.reset();
  }
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
  const CommTuning tuning_;       // of what goes between all ranks, the same on all of them
  const CommTuning lane_tuning_;  // of this rank's lane, for its device memory where it has such; else as tuning_
  const std::shared_ptr<JobCalls> job_;
  const std::shared_ptr<DeviceMemory> device_;  // null without GPUs
  std::unique_ptr<CommBackend> inside_;
  std::unique_ptr<FlatCalls> flat_;
  LanePipeline lane_;
  LevelCalls levels_;
};

HierarchicalCommunicator::HierarchicalCommunicator(const Setup& setup, HierarchicalParts parts)
    : CommBackend(setup),
      seed_(setup),
      name_(absl::StrCat(parts.inside->takes_device_memory() ? "nccl" : "shm", "+fabric")),
      layout_(std::move(parts.layout)),
      costs_layout_(LayoutOf(layout_)),
      tuning_(parts.flat->tuning()),
      lane_tuning_(parts.lane.device_lane != nullptr ? *parts.lane.device_lane->tuning()
                   : parts.lane.lane != nullptr      ? *parts.lane.lane->tuning()
                                                     : tuning_),
      job_(parts.lane.job),
      device_(parts.lane.device),
      inside_(std::move(parts.inside)),
      flat_(std::move(parts.flat)),
      lane_(std::move(parts.lane)),
      levels_(&layout_, this, inside_.get(), &lane_, device_) {}

absl::Status HierarchicalCommunicator::Execute(const CommCall& call) {
  if (IsPair(call.operation) && layout_.HostOf(call.peer) == layout_.HostOf(rank())) {
    CommCall inner = call;
    inner.peer = layout_.LocalRankOf(call.peer);
    return inside_->Run(inner);
  }
  if (!IsPair(call.operation)) job_->Next();
  if (GoesFlat(call)) return call.placement.on_device ? ThroughHost(call) : flat_->Run(call);
  return levels_.Run(call);
}

// What hosts have nothing to share of, and what the table of costs has go between all ranks, as if they had a host
// each.
bool HierarchicalCommunicator::GoesFlat(const CommCall& call) const {
  if (IsPair(call.operation) || call.operation == CommOperation::kAllToAll) return true;
  if (!HasAlgorithms(call.operation) || HasRoot(call.operation) || call.placement.on_device) return false;
  return !tuning_.TakesLevels(call.operation, call.blocks(world_size()) * call.bytes(), costs_layout_);
}

absl::Status HierarchicalCommunicator::ThroughHost(const CommCall& call) {
  const auto bytes_of = [&](const void* buffer, int blocks) { return buffer == nullptr ? 0 : blocks * call.bytes(); };
  std::vector<char> in(static_cast<size_t>(bytes_of(call.input, call.input_blocks(world_size()))));
  std::vector<char> out(static_cast<size_t>(bytes_of(call.output, call.output_blocks(world_size()))));
  CommCall there = call;
  there.placement = {};
  there.input = in.data();
  there.output = out.data();
  const int64_t in_bytes = static_cast<int64_t>(in.size());
  const int64_t out_bytes = static_cast<int64_t>(out.size());
  if (in_bytes > 0) DISTILL_RETURN_IF_ERROR(device_->Copy(in.data(), call.input, in_bytes, call.placement.stream));
  DISTILL_RETURN_IF_ERROR(flat_->Run(there));
  if (out_bytes == 0) return absl::OkStatus();
  return device_->Copy(call.output, out.data(), out_bytes, call.placement.stream);
}

absl::StatusOr<std::unique_ptr<CommMemory>> HierarchicalCommunicator::DoAllocate(int64_t bytes, Placement placement) {
  job_->Next();
  DISTILL_ASSIGN_OR_RETURN(std::unique_ptr<CommMemory> memory, inside_->Allocate(bytes, placement));
  if (takes_device_memory()) return memory;  // with GPUs a lane has buffers of its own
  if (lane_.lane() != nullptr) {
    DISTILL_ASSIGN_OR_RETURN(memory, lane_.lane()->RegisterToo(std::move(memory)));
  }
  return flat_->RegisterToo(std::move(memory));
}

absl::StatusOr<std::unique_ptr<Communicator>> HierarchicalCommunicator::DoSplit(const SplitPart& part) {
  return SplitFrom(*this, seed_, part.members, [gpus = takes_device_memory()](Setup setup) -> MadeCommunicator {
    if (setup.one_host && gpus) return CreateNcclCommunicator(std::move(setup));
    if (setup.world.world_size == 1) return CreateAloneBackend();
    if (setup.one_host) return CreateShmCommunicator(std::move(setup));
    const bool levels = gpus || HostLayout(setup.host_ids).most() > 1;
    return levels ? CreateHierarchicalCommunicator(std::move(setup), gpus) : CreateFabricCommunicator(std::move(setup));
  });
}

// A rank that waits inside its host knows better who is late than one that waits for a lane: it speaks first.
constexpr absl::Duration kLaneGrace = absl::Seconds(1);

Setup PartOf(const Setup& setup, const std::shared_ptr<JobCalls>& job, const std::vector<int>& members) {
  Setup part = setup.Part(members);
  part.rendezvous = std::make_shared<PartRendezvous>(job, members);
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

// Returns how many rails this rank's lane has, also where the rank then goes without.
absl::StatusOr<size_t> MakeLanes(const Setup& setup, HierarchicalParts& parts) {
  const HostLayout& layout = parts.layout;
  Setup lane = PartOf(setup, parts.lane.job, layout.RanksAt(layout.LocalRankOf(setup.world.rank)));
  lane.options.timeout += kLaneGrace;
  const bool has_lane = lane.world.world_size == layout.hosts();
  if (parts.lane.device != nullptr) {
    Setup device_lane = lane;
    device_lane.device_memory = parts.lane.device;
    DISTILL_ASSIGN_OR_RETURN(parts.lane.device_lane, MakeDeviceLane(setup, std::move(device_lane)));
  }
  absl::StatusOr<std::unique_ptr<FabricEndpoint>> endpoint = OpenFabric(lane);
  DISTILL_ASSIGN_OR_RETURN(auto made, FabricCommunicator::Join(std::move(lane), std::move(endpoint)));
  const size_t rails = made->rails();
  if (!has_lane) {
    parts.lane.device_lane.reset();
    return rails;
  }
  parts.lane.lane = std::move(made);
  parts.lane.lane->BecomePart();
  if (parts.lane.device_lane != nullptr) parts.lane.device_lane->BecomePart();
  DISTILL_ASSIGN_OR_RETURN(parts.lane.calls, AsyncCalls::Start(parts.lane.lane.get()));
  return rails;
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
  DISTILL_ASSIGN_OR_RETURN(const size_t rails, MakeLanes(setup, parts));
  Setup flat = setup;
  flat.options.timeout += kLaneGrace;
  DISTILL_ASSIGN_OR_RETURN(parts.flat, FlatCalls::Open(flat, parts.lane.job, rails));
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
