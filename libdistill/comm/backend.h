// What a backend of Communicator implements, and what comm/ does with one beside making calls. Internal to comm/.
//
//   class MyBackend : public CommBackend {
//     absl::string_view backend() const override { return "mine"; }
//     absl::Status Execute(const CommCall& call) override { ... }    // moves the bytes of one call
//     absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) override { ... }
//   };
//
// What holds for every backend is done here, around Execute: arguments are checked, calls are numbered, a failed one
// poisons the communicator, and its error says which call it was.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/comm/lifeline.h"

namespace distill {

// Who is in one color of a Split.
struct SplitPart {
  int color = -1;
  int key = 0;
  std::vector<int> members;  // their ranks in the parent, in their new order; empty for a color below 0
};

struct Setup;      // comm/setup.h
class CommTuning;  // comm/tuning.h

class CommBackend : public Communicator {
 public:
  absl::Status Run(const CommCall& call) final;
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) final;
  absl::StatusOr<std::unique_ptr<CommMemory>> Allocate(int64_t bytes, Placement placement = {}) final;
  void Abort(const absl::Status& error) final { lifeline_.Abort(error); }
  std::shared_ptr<BusyRanks> busy_ranks() const final { return lifeline_.busy(); }
  void SetErrorContext(std::function<std::string()> context) final { error_context_ = std::move(context); }

  // Lets a lost rank and the watchdog end calls. Once, before the first call. `timeout`: what a call is given. An error
  // (ResourceExhausted: no thread for the watchdog) is what every rank's next call returns.
  [[nodiscard]] absl::Status Attach(std::shared_ptr<Rendezvous> rendezvous, absl::Duration timeout,
                                    absl::Duration grace);

  // This is the communicator of a whole job: once it has failed, a rank that is still there after the grace period is
  // ended, in a call or not, unless this communicator was destroyed by then.
  void WatchOutsideOfCalls() { lifeline_.WatchOutsideOfCalls(); }

  // From now on each collective is compared over all ranks before it runs (CommunicatorOptions::debug). Every rank must
  // call it, once, before the first call.
  void CompareCallsFirst() { compares_calls_ = true; }

  // Another communicator makes the calls of this one, as parts of its own, which it numbers and names: errors stay as
  // they are. Once, before the first call.
  void BecomePart() { is_part_ = true; }

  // Ends a part of a communicator with the error of the whole, which its peers in the part are told.
  void EndPart(const absl::Status& error);

  // What chooses its algorithms between hosts; null: it has no choice.
  virtual const CommTuning* tuning() const { return nullptr; }
  // The same of what goes between all ranks, where that may be by another table.
  virtual const CommTuning* flat_tuning() const { return tuning(); }

  // Whether it heeds CommCall::stride for buffers in this placement.
  virtual bool takes_strides(Placement) const { return false; }

  // Registers memory that another communicator's Allocate made with this one too, for this rank alone, until what is
  // returned is freed; not during a call. ResourceExhausted: this host lets no more memory be locked.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<CommMemory>> RegisterToo(std::unique_ptr<CommMemory> memory) {
    return memory;
  }

 protected:
  using Communicator::Communicator;
  // Knows the ranks' hosts, whose memory Allocate then looks at for all of their ranks together.
  explicit CommBackend(const Setup& setup);

  // Does one call. Its arguments were checked, its count is above 0 (but for a barrier), and world_size is above 1
  // unless the backend is "alone". One that waits ends as soon as its rendezvous has failed: that is how an Abort and a
  // lost rank reach it.
  virtual absl::Status Execute(const CommCall& call) = 0;
  // May use the collectives of this communicator; ranks without a color take part in them, and get null.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> DoSplit(const SplitPart& part) = 0;
  // Plain memory by default. ResourceExhausted: this rank, or a peer that it names, has not that much.
  virtual absl::StatusOr<std::unique_ptr<CommMemory>> DoAllocate(int64_t bytes, Placement placement);
  // Runs what a call does, Execute above all: on the caller's thread by default.
  virtual absl::Status OnCallThread(absl::FunctionRef<absl::Status()> call) { return call(); }
  // Whether a time-out may name a rank that itself waits for the one that never came: rank 0 is then asked.
  virtual bool asks_who_is_late() const { return false; }
  // Called once, when the communicator is poisoned and the peers were told: withdraws what is still under way.
  virtual void Abandon(const absl::Status& error) { (void)error; }

 private:
  // Runs `body` as a call: refuses when poisoned, numbers it, and turns its failure into the error described above.
  absl::Status Guard(CommCall call, absl::FunctionRef<absl::Status()> body);
  int64_t NextNumber(const CommCall& call);
  void Poison(const absl::Status& error);
  // "barrier number 3 over shm failed on rank 1 on host-a of 2 ranks (step 5)", `where` being "failed on".
  std::string DescribeCall(const CommCall& call, const char* where) const;
  // FailedPrecondition: another rank is about to make another collective.
  absl::Status CompareWithPeers(const CommCall& mine);
  bool HasPeer(int peer) const { return peer >= 0 && peer < world_size() && peer != rank(); }
  absl::Status CheckArguments(const CommCall& call) const;
  absl::Status CheckBuffers(const CommCall& call) const;
  absl::Status CheckPlacement(Placement placement) const;
  // DoAllocate, where every host has what its ranks ask for together. Inside of a call.
  absl::StatusOr<std::unique_ptr<CommMemory>> AllocateInCall(int64_t bytes, Placement placement);
  absl::Status CheckMemoryOfHosts(int64_t bytes);
  // As GatherTexts (agree.h), inside of a call.
  absl::StatusOr<std::vector<std::string>> GatherInCall(const std::string& mine);

  const std::string host_;
  const std::string host_id_;      // "": nobody said so
  const std::string memory_root_;  // Setup::memory_root
  bool is_part_ = false;
  bool compares_calls_ = false;
  int64_t sequence_ = 0;  // collectives
  // Messages to and from each rank.
  std::vector<int64_t> sent_ = std::vector<int64_t>(static_cast<size_t>(world_size()));
  std::vector<int64_t> received_ = std::vector<int64_t>(static_cast<size_t>(world_size()));
  absl::Status poison_;
  std::function<std::string()> error_context_;
  Lifeline lifeline_;
};

}  // namespace distill
