// The ring all-reduce (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
// workstations").
//
// n ranks stand in a ring; each sends to the next and receives from the previous one only. The data are cut into n
// blocks. In step s rank r sends block r - s and receives block r - s - 1 (modulo n), for 2(n-1) steps:
//   steps 0 .. n-2     reduce-scatter: what arrives is a partial sum; the rank adds its own block to it and passes the
//                      result on in the next step. After step n-2 rank r holds the finished block r + 1.
//   steps n-1 .. 2n-3  all-gather: finished blocks go around; what arrives is stored and passed on.
// Every block travels n-1 hops twice, so each link carries 2(n-1)/n of the data, whatever n is:
//   time = 2(n-1)/n * S / bandwidth + 2(n-1) * latency
// Blocks are cut into chunks, and steps and chunks together form one stream of messages: message m = step * chunks +
// chunk. Message m goes out as soon as message m - chunks (the same chunk, one step before) has arrived and been added,
// so links and the adding work at the same time, and the next step starts before this one has ended. Up to RingWindow
// messages are under way each way. Tags carry the number of the call and of the message; nothing is inferred from the
// order of arrival. One rank finishes each block and its bits are copied: all ranks end with the same.
// In the second half blocks are written straight into the next rank's result where that can be done (fabric_writes.h);
// in the first they are messages, since what arrives is added before it is stored.
// Reduce-scatter and all-gather are one half each; a broadcast and a reduce are streams along the ring, from the root
// and to it, where no tree is quicker (exchange_tree.cc). This file moves the messages; which block message m is of,
// and the adding, is FabricRing's (fabric_ring.cc).
#include "libdistill/comm/ring.h"

#include <algorithm>
#include <utility>

#include "libdistill/comm/message_lane.h"
#include "libdistill/core/status_macros.h"
#include "libdistill/transport/fabric_wait.h"

namespace distill {

// The call's use of its schedule's credits, if it has any.
class Ring::Credits {
 public:
  Credits(const RingSchedule& schedule, const MessageLane& in, const MessageLane& out)
      : schedule_(schedule), in_(in), out_(out) {}
  // Messages below this number may go out.
  int64_t allowed() const { return all_ == nullptr ? out_.total : sent_ + all_->Left(schedule_.next); }
  // Counts what the lanes have done since the last time, and moves credits.
  absl::StatusOr<CreditStep> Move() {
    CreditStep all;
    if (all_ == nullptr) return all;
    if (out_.started < out_.total || sent_ < out_.started) {
      all_->NoteSent(schedule_.next, out_.started - std::exchange(sent_, out_.started));
      DISTILL_ASSIGN_OR_RETURN(const CreditStep came, all_->Receive(schedule_.next));
      all.Add(came);
    }
    if (out_.started < out_.total) {  // to whom this call has yet to send
      DISTILL_ASSIGN_OR_RETURN(const CreditStep went, all_->Send(schedule_.next, FabricCredits::kAll));
      all.Add(went);
    }
    if (in_.total > 0) {
      all_->NoteTaken(schedule_.previous, in_.finished - std::exchange(taken_, in_.finished));
      const int64_t last = all_->taken(schedule_.previous) + in_.total - in_.finished;
      DISTILL_ASSIGN_OR_RETURN(const CreditStep went, all_->Send(schedule_.previous, last));
      all.Add(went);
    }
    return all;
  }

 private:
  const RingSchedule& schedule_;
  const MessageLane& in_;
  const MessageLane& out_;
  FabricCredits* const all_ = schedule_.credits;
  int64_t sent_ = 0;  // of this call, that the credits know of
  int64_t taken_ = 0;
};

absl::Status Ring::Run(const RingSchedule& schedule, absl::FunctionRef<RingPiece(int64_t)> outgoing,
                       absl::FunctionRef<RingPiece(int64_t)> incoming, absl::FunctionRef<void(int64_t)> taken,
                       Check check) {
  FabricWrites* const writes = schedule.writes;
  const auto receive = [&](int64_t m, FabricOperation* operation) -> absl::StatusOr<bool> {
    const RingPiece piece = incoming(m);
    if (piece.bytes == 0) return true;
    if (writes != nullptr && m >= schedule.first_written && writes->is_written()) {
      writes->Await(operation);
      return true;
    }
    return endpoint_->Receive(schedule.previous, schedule.tag + static_cast<uint64_t>(m), piece.data, piece.bytes,
                              *piece.memory, operation);
  };
  const auto send = [&](int64_t m, FabricOperation* operation) -> absl::StatusOr<bool> {
    const RingPiece piece = outgoing(m);
    if (piece.bytes == 0) return true;
    if (writes != nullptr && m >= schedule.first_written && writes->writes()) {
      return writes->Write(piece.data, piece.bytes, *piece.memory, piece.at, operation);
    }
    return endpoint_->Send(schedule.next, schedule.tag + static_cast<uint64_t>(m), piece.data, piece.bytes,
                           *piece.memory, operation);
  };
  MessageLane in = {schedule.incoming, window_, receives_};
  MessageLane out = {schedule.outgoing, window_, sends_};
  FabricWait wait(endpoint_);
  Credits credits(schedule, in, out);
  while (out.finished < out.total || in.finished < in.total || (writes != nullptr && !writes->settled())) {
    DISTILL_ASSIGN_OR_RETURN(const bool noted, writes == nullptr ? false : writes->Move());
    const int64_t known = writes == nullptr || writes->heard() ? out.total : schedule.first_written;
    DISTILL_RETURN_IF_ERROR(in.Start([&](int64_t m) { return m < out.finished + schedule.reuse; }, receive));
    DISTILL_ASSIGN_OR_RETURN(const CreditStep credited, credits.Move());
    const int64_t allowed = std::min({in.finished + schedule.lag, credits.allowed(), known});
    DISTILL_RETURN_IF_ERROR(out.Start([&](int64_t m) { return m < allowed; }, send));
    DISTILL_ASSIGN_OR_RETURN(const bool polled, endpoint_->Poll());
    DISTILL_RETURN_IF_ERROR(in.Finish([&](int64_t m) { return taken(m), true; }));
    DISTILL_RETURN_IF_ERROR(out.Finish([](int64_t) { return true; }));
    const bool moved = std::exchange(in.moved, false) | std::exchange(out.moved, false);
    if (moved || polled || credited.moved || noted) {
      wait.Restart();
      continue;
    }
    if (wait.slow()) DISTILL_RETURN_IF_ERROR(check(schedule, in.finished < in.started && known == out.total));
    wait.Pause(in.busy || out.busy || credited.refused);
  }
  return credits.Move().status();
}

}  // namespace distill
