// The ranks of a host around shared memory: each owns a segment with flags and slots for data. Only the owner writes
// its segment, the others read it.
//
// All ranks do the same sequence of steps. A rank publishes step k once what it wrote before may be read; WaitFor(r)
// returns when rank r has published as many steps as this rank. The two flags alternate with the steps: a rank may be
// one step ahead of another, never two.
//
// Data go through the slots in rounds, which every rank counts alike. A round in the middle of a call need not be a
// step: the counters of the rounds that a rank has copied in and has reduced let it work ahead. Of the four slots, a
// rank may fill that of round k + 1 once all have copied in round k: whoever has done so is through with round k - 3,
// as long as it finishes round k - 3 before it copies in round k.
//
// A flag holds, in one cache line, the step and which call its rank is in: comparing calls costs next to nothing, and
// tells ranks that do not make the same calls from ranks that are late.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "libdistill/comm/call.h"
#include "libdistill/comm/shm_regions.h"
#include "libdistill/core/deadline.h"
#include "libdistill/transport/process_watch.h"
#include "libdistill/world/rendezvous.h"

namespace distill {

// What a rank tells the others of a call: what all must pass alike, and where its own buffers lie.
struct ShmCall {
  CallSignature signature = {};
  ShmPlace send = {};
  ShmPlace receive = {};
};

class ShmGroup {
 public:
  static constexpr size_t kSlotBytes = size_t{256} << 10;  // all four fit the caches
  // What a segment takes; it starts zeroed.
  static size_t SegmentBytes(int ranks);

  // `segments[r]`: rank r's segment, as mapped here. `watches[r]`: rank r's process. `names[r]`: for messages.
  ShmGroup(int rank, std::vector<char*> segments, std::vector<ProcessWatch> watches, std::vector<std::string> names);

  // From here on waits end as well when the rendezvous has failed: an Abort, or a rank that stands still. It must
  // outlive the group.
  void ListenTo(Rendezvous* rendezvous) { rendezvous_ = rendezvous; }

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(segments_.size()); }

  // Where rank `rank` keeps what concerns one other rank alone: a cache line for each, and pieces for one message.
  static constexpr size_t kPairLineBytes = 64;
  static constexpr size_t kPieceBytes = size_t{128} << 10;
  char* pair_line(int rank, int peer) const;
  char* piece(int rank, int64_t number) const;

  // Rank `rank`'s slot of a round; without one, of the current round.
  char* slot(int rank, uint64_t round) const;
  char* slot(int rank) const { return slot(rank, round_); }
  uint64_t round() const { return round_; }
  void NextRound(uint64_t rounds = 1) { round_ += rounds; }

  // For calls that work ahead: this rank's slot of a round is filled; its slice of it is reduced.
  void PublishCopied(uint64_t round);
  void PublishReduced(uint64_t round);
  [[nodiscard]] absl::Status WaitForCopied(uint64_t round, const Deadline& deadline) const;  // by all
  [[nodiscard]] absl::Status WaitForReduced(int rank, uint64_t round, const Deadline& deadline) const;

  // The first step of a call says which call it is.
  void Publish(const ShmCall& call);
  void Publish();
  // Unavailable: the rank left or died; DeadlineExceeded: the rank did not come; else the error with which it failed.
  // All name it.
  [[nodiscard]] absl::Status WaitFor(int rank, const Deadline& deadline) const;
  // The same until `ready`, which rank `rank` makes true.
  [[nodiscard]] absl::Status WaitUntil(int rank, absl::FunctionRef<bool()> ready, const Deadline& deadline) const;
  [[nodiscard]] absl::Status WaitForAll(const Deadline& deadline) const;
  // Waits for all to be in the same call. FailedPrecondition: a rank is in another one; names both ranks and both
  // calls.
  [[nodiscard]] absl::Status WaitForSameCall(const Deadline& deadline) const;

  // After WaitForSameCall: what rank `rank` passed.
  const ShmCall& CallOf(int rank) const;

  const std::string& NameOf(int rank) const { return names_[static_cast<size_t>(rank)]; }

  // Unavailable once a rank left or died, by name; the error of one that failed. Never blocks.
  [[nodiscard]] absl::Status Look() const;

  // The others' waits end: with this rank's name, and with its error.
  void Leave();
  void Fail(const absl::Status& error);

 private:
  enum State : uint32_t { kRunning = 0, kLeft, kFailed };
  struct Flag;
  struct Header;
  Header& header(int rank) const;
  Flag& flag(int rank) const;
  absl::Status Look(int rank) const;
  absl::Status WaitForCount(int rank, const std::atomic<uint64_t>& counter, uint64_t count,
                            const Deadline& deadline) const;

  int rank_;
  std::vector<char*> segments_;
  std::vector<ProcessWatch> watches_;
  std::vector<std::string> names_;
  Rendezvous* rendezvous_ = nullptr;
  ShmCall call_;
  uint64_t step_ = 0;
  uint64_t round_ = 0;
  mutable int crowded_ = 0;  // above 0: ranks share cores, so waiting gives them away soon
};

}  // namespace distill
