// Ranks that work outside of collectives while others wait in one: they save, load, or read. What this rank says of
// itself, and what it has heard of all.
//
// A rank that says so is given its phase's own limit: while there is one, the deadlines of waits (pause) do not pass.
// One that waits in a collective itself is not busy, whatever it has said. All communicators of a rank's job share one
// of these; the job's star carries what ranks say (world/busy_watch.h). From any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libdistill/core/deadline.h"

namespace distill {

struct BusyRank {
  std::string name;   // "rank 1 on host-b"; this rank's own has none
  int64_t phase = 0;  // tells the phases of a rank apart
  std::string what;   // "saving a checkpoint"
  std::chrono::steady_clock::time_point since;
  absl::Duration limit;

  absl::Duration lasted() const;
  bool is_overdue() const { return lasted() > limit; }
  // "saving a checkpoint for 40s".
  std::string WhatAndHowLong() const;
};

std::string EncodeBusy(const std::vector<BusyRank>& ranks);
// DataLoss: no such bytes.
[[nodiscard]] absl::StatusOr<std::vector<BusyRank>> DecodeBusy(absl::string_view payload);

class BusyRanks {
 public:
  BusyRanks() = default;
  BusyRanks(const BusyRanks&) = delete;
  BusyRanks& operator=(const BusyRanks&) = delete;

  // Of phases that begin without one; two hours at first.
  void set_limit(absl::Duration limit);
  // This rank says what it does until End, of this number; of several phases the one that began last counts. The others
  // hear of it `at_once`, or by the next beat.
  int64_t Begin(absl::string_view what, std::optional<absl::Duration> limit, bool at_once);
  void End(int64_t phase);

  // Around a collective call; false: LeaveCall is not to be called. Without a phase it costs one load.
  bool EnterCall();
  void LeaveCall();

  // For deadlines of waits for other ranks.
  const DeadlinePause& pause() const { return pause_; }
  // "; rank 1 on host-b has been saving a checkpoint for 12s, ..." for an error, where a rank is over its limit; or "".
  std::string DescribeOverdue() const;
  // What this rank does, in calls or out of them; none: it has not said.
  std::optional<BusyRank> Own() const;

  // For the star. `wake` is called when what this rank says has changed; it must not block. Null: no longer.
  void OnChange(std::function<void()> wake);
  // What the others are to hear of this rank. Once a beat, with `at_beat`, it is seen whether the rank waits in a call.
  std::optional<BusyRank> Report(bool at_beat);
  // All that are known to be busy; the time that each has is looked at here.
  void Know(std::vector<BusyRank> ranks);

 private:
  mutable std::mutex mutex_;
  std::function<void()> wake_;
  absl::Duration limit_ = absl::Hours(2);
  std::vector<BusyRank> phases_;  // of this rank, the newest last
  std::atomic<bool> has_phases_{false};
  int64_t last_phase_ = 0;
  int64_t reported_ = 0;  // the phase of the last report; 0: none
  int calls_ = 0;         // under way
  uint64_t entered_ = 0;
  uint64_t entered_at_beat_ = 0;
  bool waits_ = false;  // in the call of the last beat
  std::vector<BusyRank> known_;
  DeadlinePause pause_;
};

}  // namespace distill
