// Internal to comm/: see ring.cc and exchange.h for what moves where.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libdistill/comm/buffer_work.h"
#include "libdistill/comm/exchange.h"
#include "libdistill/comm/fabric_credits.h"
#include "libdistill/comm/fabric_cut.h"
#include "libdistill/comm/fabric_meeting.h"
#include "libdistill/comm/fabric_region.h"
#include "libdistill/comm/fabric_regions.h"
#include "libdistill/comm/fabric_tags.h"
#include "libdistill/comm/fabric_writes.h"
#include "libdistill/comm/ring.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/split.h"
#include "libdistill/transport/fabric_progress.h"

namespace distill {

constexpr int64_t kFabricChunkBytes = 256 << 10;
// On a device every reduction is a kernel to start and to wait for.
constexpr int64_t kDeviceChunkBytes = 1 << 20;

class FabricCommunicator : public CommBackend {
 public:
  // What this rank does alone: gives the others' addresses to the endpoint, starts its thread, registers buffers.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FabricCommunicator>> Create(
      const Setup& setup, std::unique_ptr<FabricEndpoint> endpoint, const FabricMeeting& meeting);

  // Every rank must call it, also with an error instead of its endpoint.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FabricCommunicator>> Join(
      Setup setup, absl::StatusOr<std::unique_ptr<FabricEndpoint>> endpoint);

  // Whoever is still in a call hears that this rank has done its part in it.
  ~FabricCommunicator() override {
    if (rendezvous_ != nullptr) rendezvous_->NoteFinishedCalls(call_);
    Close();
  }

  absl::string_view backend() const override { return "fabric"; }
  bool takes_device_memory() const override { return work_.on_device(); }
  absl::Status CheckPeers() override { return rendezvous_->CheckPeers(); }
  // Memory of the kind of this communicator's buffers, registered, of this rank alone: nobody else needs to call it.
  absl::StatusOr<std::unique_ptr<CommMemory>> AllocateHere(int64_t bytes);
  absl::StatusOr<std::unique_ptr<CommMemory>> RegisterToo(std::unique_ptr<CommMemory> memory) override;
  // Provider, rails, and whether blocks are written, for the log.
  std::string DescribeFabric() const;
  // Meets the neighbours within the deadline for joining.
  absl::Status Start(std::shared_ptr<Rendezvous> rendezvous);

 protected:
  absl::Status Execute(const CommCall& call) override;
  absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes, Placement placement) override;
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override;
  // On the progress thread.
  absl::Status OnCallThread(absl::FunctionRef<absl::Status()> call) override;
  void Abandon(const absl::Status&) override { Close(); }
  bool asks_who_is_late() const override { return true; }

 private:
  FabricCommunicator(const Setup& setup, std::unique_ptr<FabricProgress> progress, FabricWriting writing)
      : CommBackend(setup.world.rank, setup.Names()),
        seed_(setup),
        timeout_(setup.options.timeout),
        deadline_(setup.deadline),
        layout_(LayoutOf(HostLayout(setup.host_ids))),
        ring_(&progress->endpoint()),
        work_(setup.device_memory),
        exchange_(&progress->endpoint(), &work_),
        credits_(&progress->endpoint(), setup.world.rank, setup.world.world_size),
        writing_(writing),
        writes_(&progress->endpoint()),
        chunk_bytes_(work_.on_device() ? kDeviceChunkBytes : kFabricChunkBytes),
        progress_(std::move(progress)) {}
  int64_t Modulo(int64_t block) const { return (block % world_size() + world_size()) % world_size(); }
  // Begins a collective.
  void Begin(const CommCall& call);
  // On the ring: fabric_reductions.cc, fabric_moves.cc.
  absl::Status RingAllReduce(const CommCall& call);
  absl::Status ChainReduce(const CommCall& call);
  absl::Status RingReduceScatter(const CommCall& call);
  absl::Status RingAllGather(const CommCall& call);
  absl::Status ChainBroadcast(const CommCall& call);
  absl::Status DirectAllToAll(const CommCall& call);
  absl::Status Meet();
  // A message of a pair goes in chunks like a call, behind a MessageHeader.
  absl::Status Move(const CommCall& call);
  absl::Status CheckPair(int peer, bool out, absl::Time& noticed);
  // By another algorithm.
  CommAlgorithm Choose(const CommCall& call) const;
  absl::Status RunExchange(CommAlgorithm algorithm, const CommCall& call);

  RingSchedule ScheduleOf(int64_t steps, int64_t chunks) const;
  // Of a call whose chunks go one way: from this rank, unless `outgoing` is false, and to it, unless `incoming` is.
  RingSchedule OneWay(int64_t chunks, bool outgoing, bool incoming);
  // Has finished blocks, which are messages from number `first` on, written into the next rank's `to`, if they are to
  // be where they are so long.
  void WriteFrom(int64_t first, const FabricCut& cut, const FabricRegion& to, RingSchedule& schedule);
  absl::Status Check(const RingSchedule& schedule, bool waits_for_previous);
  absl::Status RunRing(const RingSchedule& schedule, absl::FunctionRef<RingPiece(int64_t)> outgoing,
                       absl::FunctionRef<RingPiece(int64_t)> incoming, absl::FunctionRef<void(int64_t)> taken);
  // The end of what ran on the endpoint for a call that concerns `whom`. After an error nothing is under way any more.
  absl::Status End(const absl::Status& status, const std::string& whom);
  // Ends what is under way, then the registrations, of memory that may outlive this, then the endpoint and its thread:
  // nothing writes to the caller's buffers from then on.
  void Close();
  // The fabric knows ranks by number; the rendezvous may know better what happened to one of `whom`.
  absl::Status Explain(const absl::Status& status, const std::string& whom);
  FabricCut Cut(int64_t count, int64_t blocks, DType dtype) const {
    return FabricCut(count, blocks, SizeOf(dtype), chunk_bytes_);
  }
  absl::StatusOr<FabricRegion> Use(const void* data, int64_t bytes);
  // What lands here, and the credits' bytes behind it.
  absl::Status FitLanding();
  // Makes `memory`, registered as `region`, at least so long.
  absl::Status Fit(std::unique_ptr<CommMemory>& memory, FabricRegion& region, int64_t bytes);
  // Where message m lands before it is added to this rank's own data.
  RingPiece Landing(int64_t m, int64_t elements, int64_t size) const {
    return {landing_.data + m % kRingWindow * chunk_bytes_, static_cast<size_t>(elements * size), &landing_.own};
  }

  const SplitSeed seed_;
  const absl::Duration timeout_;
  Deadline deadline_;
  std::shared_ptr<Rendezvous> rendezvous_;
  uint64_t call_ = 0;               // the start is number 1
  uint32_t calls_fingerprint_ = 0;  // of all of them
  // How many messages went to and came from each rank.
  std::vector<uint64_t> sent_ = std::vector<uint64_t>(static_cast<size_t>(world_size()));
  std::vector<uint64_t> received_ = std::vector<uint64_t>(static_cast<size_t>(world_size()));
  const CommLayout layout_;
  Ring ring_;
  BufferWork work_;
  Exchange exchange_;
  FabricCredits credits_;
  const FabricWriting writing_;
  FabricWrites writes_;
  const int64_t chunk_bytes_;
  std::unique_ptr<CommMemory> landing_memory_;
  std::unique_ptr<CommMemory> partial_memory_;
  std::unique_ptr<CommMemory> exchange_memory_;
  const std::shared_ptr<FabricRegions> regions_ = std::make_shared<FabricRegions>();
  std::unique_ptr<FabricProgress> progress_;  // null once closed
  FabricRegion landing_;
  FabricRegion partial_;
  FabricRegion exchange_landing_;
};

}  // namespace distill
