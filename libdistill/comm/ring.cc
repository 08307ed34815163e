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
// so links and the adding work at the same time, and the next step starts before this one has ended. Up to kRingWindow
// messages are under way each way. Tags carry the number of the call and of the message; nothing is inferred from the
// order of arrival. One rank finishes each block and its bits are copied: all ranks end with the same.
// Reduce-scatter and all-gather are one half each; a broadcast is a stream along the ring, from the root.
#include "libdistill/comm/ring.h"

#include "libdistill/core/status_macros.h"
#include "libdistill/world/backoff.h"

namespace distill {

struct Ring::Progress {
  int64_t sent = 0;      // handed to the fabric
  int64_t departed = 0;  // of these, finished
  int64_t awaited = 0;   // receives handed to the fabric
  int64_t arrived = 0;   // of these, finished and taken in
  bool moved = false;    // in this turn of the loop
};

absl::Status Ring::Run(const RingSchedule& schedule, absl::FunctionRef<RingPiece(int64_t)> outgoing,
                       absl::FunctionRef<RingPiece(int64_t)> incoming, absl::FunctionRef<void(int64_t)> taken,
                       Check check) {
  Progress progress;
  Backoff backoff;
  while (progress.departed < schedule.outgoing || progress.arrived < schedule.incoming) {
    progress.moved = false;
    DISTILL_RETURN_IF_ERROR(StartReceives(schedule, incoming, progress));
    DISTILL_RETURN_IF_ERROR(StartSends(schedule, outgoing, progress));
    DISTILL_ASSIGN_OR_RETURN(const bool polled, endpoint_->Poll());
    DISTILL_RETURN_IF_ERROR(Collect(taken, progress));
    if (polled || progress.moved) {
      backoff = Backoff();
      continue;
    }
    if (backoff.slow()) DISTILL_RETURN_IF_ERROR(check(schedule, progress.arrived < progress.awaited));
    backoff.Pause();
  }
  return absl::OkStatus();
}

absl::Status Ring::StartReceives(const RingSchedule& schedule, absl::FunctionRef<RingPiece(int64_t)> incoming,
                                 Progress& progress) {
  while (progress.awaited < schedule.incoming && progress.awaited - progress.arrived < kRingWindow &&
         progress.awaited < progress.departed + schedule.reuse) {
    const int64_t m = progress.awaited;
    const RingPiece piece = incoming(m);
    if (piece.bytes > 0) {
      DISTILL_ASSIGN_OR_RETURN(
          const bool posted, endpoint_->Receive(schedule.previous, schedule.tag + static_cast<uint64_t>(m), piece.data,
                                                piece.bytes, *piece.memory, &receives_[m % kRingWindow]));
      if (!posted) return absl::OkStatus();
    }
    ++progress.awaited;
    progress.moved = true;
  }
  return absl::OkStatus();
}

absl::Status Ring::StartSends(const RingSchedule& schedule, absl::FunctionRef<RingPiece(int64_t)> outgoing,
                              Progress& progress) {
  while (progress.sent < schedule.outgoing && progress.sent - progress.departed < kRingWindow &&
         progress.sent < progress.arrived + schedule.lag) {
    const int64_t m = progress.sent;
    const RingPiece piece = outgoing(m);
    if (piece.bytes > 0) {
      DISTILL_ASSIGN_OR_RETURN(const bool posted,
                               endpoint_->Send(schedule.next, schedule.tag + static_cast<uint64_t>(m), piece.data,
                                               piece.bytes, *piece.memory, &sends_[m % kRingWindow]));
      if (!posted) return absl::OkStatus();
    }
    ++progress.sent;
    progress.moved = true;
  }
  return absl::OkStatus();
}

absl::Status Ring::Collect(absl::FunctionRef<void(int64_t)> taken, Progress& progress) {
  while (progress.arrived < progress.awaited && receives_[progress.arrived % kRingWindow].done) {
    DISTILL_RETURN_IF_ERROR(receives_[progress.arrived % kRingWindow].status);
    taken(progress.arrived++);
    progress.moved = true;
  }
  while (progress.departed < progress.sent && sends_[progress.departed % kRingWindow].done) {
    DISTILL_RETURN_IF_ERROR(sends_[progress.departed % kRingWindow].status);
    ++progress.departed;
    progress.moved = true;
  }
  return absl::OkStatus();
}

}  // namespace distill
