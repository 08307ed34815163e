// What moves data without arithmetic over the fabric: all-gather and broadcast on the ring of ring.cc, all-to-all and
// messages directly between the two ranks.
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/fabric_communicator.h"
#include "libdistill/comm/same_calls.h"
#include "libdistill/core/status_macros.h"

namespace distill {

absl::Status FabricCommunicator::RingAllGather(const CommCall& call) {
  const int64_t n = world_size();
  const int64_t size = SizeOf(call.dtype);
  const FabricCut cut = Cut(n * call.count, n, call.dtype);
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to, Use(call.output, n * call.bytes()));
  char* mine = to.data + rank() * call.bytes();
  if (mine != call.input) work_.Copy(mine, call.input, call.bytes());
  const auto piece = [&](int64_t block, int64_t m) {
    const int64_t chunk = m % cut.chunks;
    return to.Piece(block * call.count + cut.ChunkBegin(chunk), cut.ChunkLength(block, chunk), size);
  };
  RingSchedule schedule = ScheduleOf(n - 1, cut.chunks);
  WriteFrom(0, cut, to, schedule);
  return RunRing(
      schedule, [&](int64_t m) { return piece(Modulo(rank() - m / cut.chunks), m); },
      [&](int64_t m) { return piece(Modulo(rank() - m / cut.chunks - 1), m); }, [](int64_t) {});
}

// Below this length a provider takes a message with a tag at once, and the note costs more than it saves.
void FabricCommunicator::WriteFrom(int64_t first, const FabricCut& cut, const FabricRegion& to,
                                   RingSchedule& schedule) {
  constexpr int64_t kShortest = 64 << 10;
  if (writing_ == FabricWriting::kNone) return;
  if (writing_ == FabricWriting::kLong && cut.longest * cut.size < kShortest) return;
  schedule.writes = &writes_;
  schedule.first_written = first;
  writes_.Begin(schedule.next, schedule.previous, schedule.tag, to.found);
}

absl::Status FabricCommunicator::ChainBroadcast(const CommCall& call) {
  const FabricCut cut = Cut(call.count, 1, call.dtype);
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion data, Use(call.output, call.bytes()));
  const auto piece = [&](int64_t m) { return data.Piece(cut.ChunkBegin(m), cut.ChunkLength(0, m), cut.size); };
  RingSchedule schedule =
      OneWay(cut.chunks, /*outgoing=*/Modulo(rank() + 1) != call.root, /*incoming=*/rank() != call.root);
  schedule.reuse = cut.chunks;                          // nothing is overwritten
  schedule.lag = rank() == call.root ? cut.chunks : 0;  // elsewhere chunk m is passed on once it is here
  return RunRing(schedule, piece, piece, [](int64_t) {});
}

// In step s each rank sends to the one s further on and receives from the one s before: n-1 steps, each link one block
// a step.
absl::Status FabricCommunicator::DirectAllToAll(const CommCall& call) {
  const int64_t n = world_size();
  const int64_t size = SizeOf(call.dtype);
  const FabricCut cut = Cut(call.count, 1, call.dtype);
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, Use(call.input, n * call.bytes()));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to, Use(call.output, n * call.bytes()));
  work_.Copy(to.data + rank() * call.bytes(), from.data + rank() * call.bytes(), call.bytes());
  RingSchedule schedule = ScheduleOf(1, cut.chunks);
  schedule.lag = schedule.reuse = cut.chunks;
  for (int64_t step = 1; step < n; ++step) {
    schedule.tag += static_cast<uint64_t>(cut.chunks);  // what another rank sends in its step is told apart
    schedule.next = static_cast<int>(Modulo(rank() + step));
    schedule.previous = static_cast<int>(Modulo(rank() - step));
    const auto piece = [&](const FabricRegion& region, int64_t block, int64_t m) {
      return region.Piece(block * call.count + cut.ChunkBegin(m), cut.ChunkLength(0, m), size);
    };
    DISTILL_RETURN_IF_ERROR(RunRing(
        schedule, [&](int64_t m) { return piece(from, schedule.next, m); },
        [&](int64_t m) { return piece(to, schedule.previous, m); }, [](int64_t) {}));
  }
  return absl::OkStatus();
}

// Message 0 says what the others are, which are on their way with it.
absl::Status FabricCommunicator::Move(const CommCall& call) {
  const int peer = call.peer;
  const bool out = call.operation == CommOperation::kSend;
  deadline_ = rendezvous_->DeadlineAfter(timeout_);
  const FabricCut cut = Cut(call.count, 1, call.dtype);
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion region, Use(out ? call.input : call.output, call.bytes()));
  const MessageHeader mine = MessageHeader::Of(call);
  const RingPiece header = landing_.Piece(0, sizeof(mine), 1);
  if (out) work_.CopyHost(header.data, &mine, sizeof(mine));
  RingSchedule schedule = OneWay(1 + cut.chunks, /*outgoing=*/out, /*incoming=*/!out);
  schedule.next = schedule.previous = peer;
  schedule.tag = FabricPairTag(++(out ? sent_ : received_)[static_cast<size_t>(peer)], out ? rank() : peer);
  const auto piece = [&](int64_t m) {
    return m == 0 ? header : region.Piece(cut.ChunkBegin(m - 1), cut.ChunkLength(0, m - 1), cut.size);
  };
  absl::Status same;
  const auto taken = [&](int64_t m) {
    if (m != 0) return;
    MessageHeader theirs;
    work_.CopyHost(&theirs, header.data, sizeof(theirs));
    same = CompareMessages(theirs, Describe(peer), mine, Describe(rank()));
  };
  absl::Time noticed = absl::InfiniteFuture();
  const absl::Status status = ring_.Run(schedule, piece, piece, taken, [&](const RingSchedule&, bool) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(same);
    return CheckPair(peer, out, noticed);
  });
  return End(same.ok() ? status : same, absl::StrCat("this rank and ", Describe(peer)));
}

// `noticed`: when the peer was first seen to have left; what it sent before may still be on its way.
absl::Status FabricCommunicator::CheckPair(int peer, bool out, absl::Time& noticed) {
  constexpr absl::Duration kLastWords = absl::Seconds(1);
  DISTILL_RETURN_IF_ERROR(rendezvous_->CheckPeersIn(call_));
  if (rendezvous_->HasLeft(peer)) {
    const absl::Time now = absl::Now();
    noticed = std::min(noticed, now);
    if (now - noticed > kLastWords) return absl::UnavailableError(absl::StrCat(Describe(peer), " has left the job"));
  }
  if (!deadline_.Passed()) return absl::OkStatus();
  return deadline_.Error(absl::StrCat(out ? "sending to " : "waiting for data from ", Describe(peer)));
}

}  // namespace distill
