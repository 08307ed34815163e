#include "libdistill/comm/hierarchical_communicator.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libdistill/core/status_macros.h"

namespace distill {

HierarchicalCommunicator::HierarchicalCommunicator(const Setup& setup, HierarchicalParts parts)
    : CommBackend(setup.world.rank, setup.Names()),
      seed_(setup),
      name_(absl::StrCat(parts.inside->takes_device_memory() ? "nccl" : "shm", "+fabric")),
      layout_(std::move(parts.layout)),
      costs_layout_(LayoutOf(layout_)),
      job_(parts.lane.job),
      device_(parts.lane.device),
      inside_(std::move(parts.inside)),
      flat_(std::move(parts.flat)),
      lane_(std::move(parts.lane)),
      levels_(&layout_, this, inside_.get(), &lane_, device_) {}

// Whoever is still in a call hears that this rank has done its part in it.
HierarchicalCommunicator::~HierarchicalCommunicator() { job_->rendezvous().NoteFinishedCalls(job_->call()); }

absl::Status HierarchicalCommunicator::CheckPeers() {
  DISTILL_RETURN_IF_ERROR(inside_->CheckPeers());
  return job_->rendezvous().CheckPeers();
}

void HierarchicalCommunicator::Abandon(const absl::Status& error) {
  job_->End(error);
  inside_->EndPart(error);  // else this rank would seem to have left in order
  lane_.Close();
  flat_.reset();
}

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
  if (!HasAlgorithms(call.operation) || call.placement.on_device) return false;
  return !seed_.tuning.TakesLevels(call.operation, call.blocks(world_size()) * call.bytes(), costs_layout_);
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
  return SplitFrom(*this, seed_, part.members, part.rank,
                   [gpus = takes_device_memory()](Setup setup) -> MadeCommunicator {
                     if (setup.one_host && gpus) return CreateNcclCommunicator(std::move(setup));
                     if (setup.world.world_size == 1) return CreateAloneBackend();
                     if (setup.one_host) return CreateShmCommunicator(std::move(setup));
                     const bool levels = gpus || HostLayout(setup.host_ids).most() > 1;
                     return levels ? CreateHierarchicalCommunicator(std::move(setup), gpus)
                                   : CreateFabricCommunicator(std::move(setup));
                   });
}

}  // namespace distill
