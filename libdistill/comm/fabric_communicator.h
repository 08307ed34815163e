// Internal to comm/: see fabric_collectives.h for what moves where.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "libdistill/comm/buffer_work.h"
#include "libdistill/comm/fabric_calls.h"
#include "libdistill/comm/fabric_collectives.h"
#include "libdistill/comm/fabric_meeting.h"
#include "libdistill/comm/setup.h"
#include "libdistill/comm/split.h"
#include "libdistill/transport/fabric_progress.h"

namespace distill {

class FabricCommunicator : public CommBackend {
 public:
  // Every rank must call it, also with an error instead of its endpoint. Meets the neighbours within the deadline for
  // joining.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FabricCommunicator>> Join(
      Setup setup, absl::StatusOr<std::unique_ptr<FabricEndpoint>> endpoint);

  // Whoever is still in a call hears that this rank has done its part in it.
  ~FabricCommunicator() override {
    if (calls_.rendezvous() != nullptr) calls_.rendezvous()->NoteFinishedCalls(calls_.number());
    Close();
  }

  absl::string_view backend() const override { return "fabric"; }
  // Not once closed.
  size_t rails() const { return progress_->endpoint().networks().size(); }
  bool takes_device_memory() const override { return work_.on_device(); }
  const CommTuning* tuning() const override { return &seed_.setup.tuning; }
  absl::Status CheckPeers() override { return calls_.rendezvous()->CheckPeers(); }
  // Memory of the kind of this communicator's buffers, registered, of this rank alone: nobody else needs to call it.
  absl::StatusOr<std::unique_ptr<CommMemory>> AllocateHere(int64_t bytes);
  absl::StatusOr<std::unique_ptr<CommMemory>> RegisterToo(std::unique_ptr<CommMemory> memory) override;

 protected:
  absl::Status Execute(const CommCall& call) override;
  absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes, Placement) override {
    return AllocateHere(bytes);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override;
  // On the progress thread.
  absl::Status OnCallThread(absl::FunctionRef<absl::Status()> call) override;
  void Abandon(const absl::Status&) override { Close(); }
  bool asks_who_is_late() const override { return true; }

 private:
  FabricCommunicator(const Setup& setup, std::unique_ptr<FabricProgress> progress, FabricWriting writing)
      : CommBackend(setup),
        seed_(setup),
        writing_(writing),
        work_(setup.device_memory),
        calls_(this, &progress->endpoint(), &work_, setup.options.timeout, setup.deadline),
        collectives_(this, &progress->endpoint(), &work_, &calls_, writing, LayoutOf(HostLayout(setup.host_ids)),
                     setup.tuning),
        progress_(std::move(progress)) {}
  // What this rank does alone: gives the others' addresses to the endpoint, starts its thread, registers buffers.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<FabricCommunicator>> Create(
      const Setup& setup, std::unique_ptr<FabricEndpoint> endpoint, const FabricMeeting& meeting);
  // Provider, rails, and whether blocks are written, for the log.
  std::string DescribeFabric() const;

  // Ends what is under way, then the registrations, of memory that may outlive this, then the endpoint and its thread:
  // nothing writes to the caller's buffers from then on.
  void Close();

  const SplitSeed seed_;
  const FabricWriting writing_;
  BufferWork work_;
  FabricCalls calls_;
  FabricCollectives collectives_;
  std::unique_ptr<FabricProgress> progress_;  // null once closed
};

}  // namespace distill
