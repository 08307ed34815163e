// What rank 0 learns from the calls that all ranks report in their heartbeats: ranks that make different calls, and
// which rank the others wait for when a call takes too long. Used under the lock of the star that it is a part of.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libdistill/core/deadline.h"
#include "libdistill/world/heartbeat_clock.h"
#include "libdistill/world/rendezvous.h"
#include "libdistill/world/star_peer.h"
#include "libdistill/world/world.h"

namespace distill {

// What a beat carries of its sender's last calls.
std::string EncodeCalls(const std::vector<CallView>& calls);
// DataLoss: no such bytes.
[[nodiscard]] absl::StatusOr<std::vector<CallView>> DecodeCalls(absl::string_view payload);

class CallWatch {
 public:
  // All must outlive it.
  CallWatch(const World& world, const HeartbeatClock& clock, std::list<StarPeer>& peers)
      : world_(world), clock_(clock), peers_(peers) {}

  // See Rendezvous::CompareCalls.
  void SetLastCalls(std::function<std::vector<CallView>()> last_calls) { last_calls_ = std::move(last_calls); }
  std::vector<CallView> LastCalls() const { return last_calls_ ? last_calls_() : std::vector<CallView>(); }
  // Whether a late call may be reported, and how long rank 0 may then take to judge it.
  bool is_on() const { return last_calls_ && clock_.started(); }
  absl::Duration AnswersWithin() const;

  // Of rank 0. Its own calls, and then each peer's, against those of the ranks before. FailedPrecondition: one differs.
  [[nodiscard]] absl::Status Compare(const std::vector<CallView>& mine) const;
  // A rank's report of a call that takes too long; while one is open others are passed over.
  static std::string LateReport(int64_t call, absl::Duration allowed);
  void TakeLate(const std::string& report);
  // DeadlineExceeded, once, when it is clear which rank the others wait for.
  [[nodiscard]] absl::Status JudgeLate();

  // Until the next beat, or until the open report is to be judged.
  int PollMilliseconds() const;

 private:
  struct LateCall {
    int64_t number = 0;
    std::string allowed;
    Deadline patience = Deadline::Never();  // for the beats of all ranks
  };
  std::string own_name() const;

  const World& world_;
  const HeartbeatClock& clock_;
  std::list<StarPeer>& peers_;
  std::function<std::vector<CallView>()> last_calls_;
  std::optional<LateCall> late_;
};

}  // namespace distill
