// Says that this rank works outside of collectives, so that the others wait for it: it loads, reads, saves.
//
//   const BusyPhase phase(comm, "saving a checkpoint");   // until the end of the block
//   const BusyPhase check(comm, "checking files", absl::Hours(8));
//
// Any rank alone may say so, on any thread, also inside of another phase, whose limit then does not count. While it is
// within its limit (by default CommunicatorOptions::phase_timeout) no time-out of the job's calls runs, those of splits
// and of `comm`'s parts included; each begins anew when it ends, or when the limit is over. A call that is made in a
// phase counts as waiting, as ever. Never blocks; costs each end a wake-up of the thread that beats, which one that is
// short most of the time does without: it is told with the next beat (within a second), where it lasts that long.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libdistill/comm/agree.h"
#include "libdistill/comm/communicator.h"
#include "libdistill/world/busy_ranks.h"

namespace distill {

enum class ToldBusy { kAtOnce, kWithNextBeat };

class BusyPhase {
 public:
  // `what`: as in "rank 1 is ...". The communicator need not outlive it.
  BusyPhase(const Communicator& comm, absl::string_view what, std::optional<absl::Duration> limit = std::nullopt,
            ToldBusy told = ToldBusy::kAtOnce)
      : ranks_(comm.busy_ranks()),
        number_(ranks_ != nullptr ? ranks_->Begin(what, limit, told == ToldBusy::kAtOnce) : 0) {}
  BusyPhase(const Communicator& comm, absl::string_view what, ToldBusy told)
      : BusyPhase(comm, what, std::nullopt, told) {}
  ~BusyPhase() {
    if (ranks_ != nullptr) ranks_->End(number_);
  }
  BusyPhase(const BusyPhase&) = delete;
  BusyPhase& operator=(const BusyPhase&) = delete;

 private:
  const std::shared_ptr<BusyRanks> ranks_;
  const int64_t number_;
};

// Every rank must call it: rank 0 calls `work`, in a phase of this name, and its error is every rank's.
template <class Work>
[[nodiscard]] absl::Status OnRank0(Communicator& comm, absl::string_view what, Work&& work) {
  absl::Status mine;
  if (comm.rank() == 0) {
    const BusyPhase phase(comm, what);
    mine = std::forward<Work>(work)();
  }
  return Agree(comm, mine);
}

}  // namespace distill
