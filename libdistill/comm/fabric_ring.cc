// Which block a message of ring.h is of, where it lies, and what is done with it. 16-bit types are added in float32 and
// rounded at every hop, since partial sums travel in the type of the data.
#include "libdistill/comm/fabric_ring.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/comm/fabric_tags.h"
#include "libdistill/comm/same_calls.h"
#include "libdistill/core/status_macros.h"

namespace distill {

// What lands here, and the credits' bytes behind it.
absl::Status FabricRing::Open() {
  const int64_t bytes = ring_.window() * chunk_bytes_;
  DISTILL_RETURN_IF_ERROR(calls_.Fit(landing_, bytes + FabricCredits::kBytes));
  credits_.Use(landing_.region.data + bytes, &landing_.region.memory());
  return writes_.Open();
}

void FabricRing::Close() {
  landing_.region = FabricRegion();
  partial_.region = FabricRegion();
  writes_.Close();
}

absl::Status FabricRing::Run(const CommCall& call) {
  constexpr absl::Status (FabricRing::*kWays[])(const CommCall&) = {
      &FabricRing::AllReduce, &FabricRing::ReduceScatter, &FabricRing::AllGather, &FabricRing::Broadcast,
      &FabricRing::Reduce,    &FabricRing::AllToAll,      &FabricRing::Meet};  // in the order of CommOperation
  return (this->*kWays[static_cast<size_t>(call.operation)])(call);
}

RingSchedule FabricRing::ScheduleOf(int64_t steps, int64_t chunks) const {
  RingSchedule schedule;
  schedule.next = static_cast<int>(Modulo(rank() + 1));
  schedule.previous = static_cast<int>(Modulo(rank() - 1));
  schedule.outgoing = schedule.incoming = steps * chunks;
  schedule.lag = schedule.reuse = chunks;
  schedule.tag = calls_.tag();
  return schedule;
}

RingSchedule FabricRing::OneWay(int64_t chunks, bool outgoing, bool incoming) {
  RingSchedule schedule = ScheduleOf(1, chunks);
  schedule.credits = &credits_;
  if (!incoming) schedule.incoming = 0;
  if (!outgoing) schedule.outgoing = 0;
  return schedule;
}

absl::Status FabricRing::RunRing(const RingSchedule& schedule, absl::FunctionRef<RingPiece(int64_t)> outgoing,
                                 absl::FunctionRef<RingPiece(int64_t)> incoming,
                                 absl::FunctionRef<void(int64_t)> taken) {
  const absl::Status status =
      ring_.Run(schedule, outgoing, incoming, taken, [this](const RingSchedule& s, bool waits_for_previous) {
        return calls_.Check(waits_for_previous ? s.previous : s.next, waits_for_previous);
      });
  return calls_.End(
      status, absl::StrCat(ranks_.Describe(schedule.previous), ", this rank and ", ranks_.Describe(schedule.next)));
}

absl::Status FabricRing::AllReduce(const CommCall& call) {
  const int64_t n = ranks_.world_size();
  const FabricCut cut = Cut(call.count, n, call.dtype);
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, calls_.Use(call.input, call.bytes()));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to, calls_.Use(call.output, call.bytes()));
  const auto piece = [&](const FabricRegion& region, int64_t block, int64_t m) {
    const int64_t chunk = m % cut.chunks;
    return region.Piece(cut.Begin(block) + cut.ChunkBegin(chunk), cut.ChunkLength(block, chunk), cut.size);
  };
  const auto outgoing = [&](int64_t m) {
    const int64_t step = m / cut.chunks;
    return piece(step == 0 ? from : to, Modulo(rank() - step), m);
  };
  const auto incoming = [&](int64_t m) {
    const int64_t step = m / cut.chunks;
    const int64_t block = Modulo(rank() - step - 1);
    return step >= n - 1 ? piece(to, block, m) : Landing(m, cut.ChunkLength(block, m % cut.chunks), cut.size);
  };
  const auto taken = [&](int64_t m) {
    const int64_t step = m / cut.chunks;
    const int64_t block = Modulo(rank() - step - 1);
    const int64_t elements = cut.ChunkLength(block, m % cut.chunks);
    if (step >= n - 1 || elements == 0) return;
    const void* sources[] = {Landing(m, elements, cut.size).data, piece(from, block, m).data};
    const int divisor = step == n - 2 ? call.divisor(ranks_.world_size()) : 1;
    work_.Reduce(piece(to, block, m).data, sources, 2, elements, call.dtype, call.op, divisor);
  };
  RingSchedule schedule = ScheduleOf(2 * (n - 1), cut.chunks);
  WriteFrom((n - 1) * cut.chunks, cut, to, schedule);
  return RunRing(schedule, outgoing, incoming, taken);
}

// A chain to the root, from the rank after it on: each adds its own chunk to what arrives and passes the sum on.
//   time = (S + (n-2) * chunk) / bandwidth + (n-1) * latency
absl::Status FabricRing::Reduce(const CommCall& call) {
  const FabricCut cut = Cut(call.count, 1, call.dtype);
  const bool last = rank() == call.root;
  DISTILL_RETURN_IF_ERROR(calls_.Fit(partial_, ring_.window() * chunk_bytes_));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, calls_.Use(call.input, call.bytes()));
  const bool first = Modulo(rank() - 1) == call.root;
  const auto own = [&](int64_t m) { return from.Piece(cut.ChunkBegin(m), cut.ChunkLength(0, m), cut.size); };
  const auto sum = [&](int64_t m) {
    return partial_.region.Piece(m % ring_.window() * cut.per_chunk, cut.ChunkLength(0, m), cut.size);
  };
  const auto taken = [&](int64_t m) {
    const int64_t elements = cut.ChunkLength(0, m);
    const void* sources[] = {Landing(m, elements, cut.size).data, own(m).data};
    char* out = last ? call.out() + cut.ChunkBegin(m) * cut.size : sum(m).data;
    work_.Reduce(out, sources, 2, elements, call.dtype, call.op, last ? call.divisor(ranks_.world_size()) : 1);
  };
  RingSchedule schedule = OneWay(cut.chunks, /*outgoing=*/!last, /*incoming=*/!first);
  schedule.lag = first ? cut.chunks : 0;
  schedule.reuse = last ? cut.chunks : ring_.window();  // a sum that has left makes room for the next
  return RunRing(
      schedule, [&](int64_t m) { return first ? own(m) : sum(m); },
      [&](int64_t m) { return Landing(m, cut.ChunkLength(0, m), cut.size); }, taken);
}

absl::Status FabricRing::ReduceScatter(const CommCall& call) {
  const int64_t n = ranks_.world_size();
  const int64_t size = SizeOf(call.dtype);
  const FabricCut cut = Cut(n * call.count, n, call.dtype);
  const ReduceScatterOrder order(n, cut.chunks, ring_.window());
  const int64_t chunk = cut.per_chunk, kept = order.group * chunk;
  DISTILL_RETURN_IF_ERROR(calls_.Fit(partial_, n > 2 ? 2 * kept * size : 1));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, calls_.Use(call.input, n * call.bytes()));
  const auto elements = [&](int64_t m) { return cut.ChunkLength(0, order.Chunk(m)); };
  const auto own = [&](int64_t block, int64_t m) {
    return from.Piece(block * call.count + cut.ChunkBegin(order.Chunk(m)), elements(m), size);
  };
  // Partial sums of a group, for two steps that alternate: what one step adds, the next one sends.
  const auto sum = [&](int64_t m) {
    return partial_.region.Piece(m / order.group % 2 * kept + m % order.group * chunk, elements(m), size);
  };
  const auto outgoing = [&](int64_t m) {
    return order.Step(m) == 0 ? own(Modulo(rank() - 1), m) : sum(m - order.group);
  };
  const auto incoming = [&](int64_t m) { return Landing(m, elements(m), size); };
  const auto taken = [&](int64_t m) {
    if (elements(m) == 0) return;
    const int64_t step = order.Step(m);
    const bool last = step == n - 2;
    const void* sources[] = {Landing(m, elements(m), size).data, own(Modulo(rank() - step - 2), m).data};
    char* out = last ? call.out() + cut.ChunkBegin(order.Chunk(m)) * size : sum(m).data;
    work_.Reduce(out, sources, 2, elements(m), call.dtype, call.op, last ? call.divisor(ranks_.world_size()) : 1);
  };
  return RunRing(ScheduleOf(order.rounds(), order.group), outgoing, incoming, taken);
}

absl::Status FabricRing::AllGather(const CommCall& call) {
  const int64_t n = ranks_.world_size();
  const int64_t size = SizeOf(call.dtype);
  const FabricCut cut = Cut(n * call.count, n, call.dtype);
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to, calls_.Use(call.output, n * call.bytes()));
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
void FabricRing::WriteFrom(int64_t first, const FabricCut& cut, const FabricRegion& to, RingSchedule& schedule) {
  constexpr int64_t kShortest = 64 << 10;
  if (writing_ == FabricWriting::kNone) return;
  if (writing_ == FabricWriting::kLong && cut.longest * cut.size < kShortest) return;
  schedule.writes = &writes_;
  schedule.first_written = first;
  writes_.Begin(schedule.next, schedule.previous, schedule.tag, to.found);
}

absl::Status FabricRing::Broadcast(const CommCall& call) {
  const FabricCut cut = Cut(call.count, 1, call.dtype);
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion data, calls_.Use(call.output, call.bytes()));
  const auto piece = [&](int64_t m) { return data.Piece(cut.ChunkBegin(m), cut.ChunkLength(0, m), cut.size); };
  RingSchedule schedule =
      OneWay(cut.chunks, /*outgoing=*/Modulo(rank() + 1) != call.root, /*incoming=*/rank() != call.root);
  schedule.reuse = cut.chunks;                          // nothing is overwritten
  schedule.lag = rank() == call.root ? cut.chunks : 0;  // elsewhere chunk m is passed on once it is here
  return RunRing(schedule, piece, piece, [](int64_t) {});
}

// In step s each rank sends to the one s further on and receives from the one s before: n-1 steps, each link one block
// a step.
absl::Status FabricRing::AllToAll(const CommCall& call) {
  const int64_t n = ranks_.world_size();
  const int64_t size = SizeOf(call.dtype);
  const FabricCut cut = Cut(call.count, 1, call.dtype);
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, calls_.Use(call.input, n * call.bytes()));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to, calls_.Use(call.output, n * call.bytes()));
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

// Dissemination: in round k each rank tells the one 2^k further on; after log2(n) rounds each has heard of all.
absl::Status FabricRing::Meet(const CommCall&) {
  RingSchedule schedule = ScheduleOf(1, 1);
  for (int64_t distance = 1; distance < ranks_.world_size(); distance *= 2, ++schedule.tag) {
    schedule.next = static_cast<int>(Modulo(rank() + distance));
    schedule.previous = static_cast<int>(Modulo(rank() - distance));
    DISTILL_RETURN_IF_ERROR(RunRing(
        schedule, [&](int64_t) { return landing_.region.Piece(0, 1, 1); },
        [&](int64_t) { return landing_.region.Piece(1, 1, 1); }, [](int64_t) {}));
  }
  return absl::OkStatus();
}

// Message 0 says what the others are, which are on their way with it.
absl::Status FabricRing::Move(const CommCall& call) {
  const int peer = call.peer;
  const bool out = call.operation == CommOperation::kSend;
  calls_.BeginMessage();
  const FabricCut cut = Cut(call.count, 1, call.dtype);
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion region, calls_.Use(out ? call.input : call.output, call.bytes()));
  const MessageHeader mine = MessageHeader::Of(call);
  const RingPiece header = landing_.region.Piece(0, sizeof(mine), 1);
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
    same = CompareMessages(theirs, ranks_.Describe(peer), mine, ranks_.Describe(rank()));
  };
  absl::Time noticed = absl::InfiniteFuture();
  const absl::Status status = ring_.Run(schedule, piece, piece, taken, [&](const RingSchedule&, bool) -> absl::Status {
    DISTILL_RETURN_IF_ERROR(same);
    return CheckPair(peer, out, noticed);
  });
  return calls_.End(same.ok() ? status : same, absl::StrCat("this rank and ", ranks_.Describe(peer)));
}

// `noticed`: when the peer was first seen to have left; what it sent before may still be on its way.
absl::Status FabricRing::CheckPair(int peer, bool out, absl::Time& noticed) {
  DISTILL_RETURN_IF_ERROR(calls_.CheckPeers());
  if (calls_.rendezvous()->HasLeft(peer)) {
    const absl::Time now = absl::Now();
    noticed = std::min(noticed, now);
    const bool heard_all = now - noticed > kLastWords;
    if (heard_all) return absl::UnavailableError(absl::StrCat(ranks_.Describe(peer), " has left the job"));
  }
  return calls_.CheckDeadline(peer, /*receiving=*/!out);
}

}  // namespace distill
