// Reductions on the ring of ring.cc: all-reduce, reduce and reduce-scatter. 16-bit types are added in float32 and
// rounded at every hop, since partial sums travel in the type of the data.
#include "libdistill/comm/fabric_communicator.h"
#include "libdistill/core/status_macros.h"

namespace distill {
namespace {

// A reduce-scatter's messages: all steps of a group of chunks, then those of the next group, so that partial sums take
// the room of a group, however long the blocks are. A group is several windows long: the stream does not stop for it.
struct ReduceScatterOrder {
  ReduceScatterOrder(int64_t ranks, int64_t chunks)
      : steps(ranks - 1), groups(CeilDivide(chunks, 4 * kRingWindow)), group(CeilDivide(chunks, groups)) {}
  static int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
  int64_t Step(int64_t m) const { return m / group % steps; }
  int64_t Chunk(int64_t m) const { return m / (group * steps) * group + m % group; }
  int64_t rounds() const { return groups * steps; }  // of `group` messages each
  int64_t steps, groups, group;
};

}  // namespace

absl::Status FabricCommunicator::RingAllReduce(const CommCall& call) {
  const int64_t n = world_size();
  const FabricCut cut = Cut(call.count, n, call.dtype);
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, Use(call.input, call.bytes()));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion to, Use(call.output, call.bytes()));
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
    const int divisor = step == n - 2 ? call.divisor(world_size()) : 1;
    work_.Reduce(piece(to, block, m).data, sources, 2, elements, call.dtype, call.op, divisor);
  };
  RingSchedule schedule = ScheduleOf(2 * (n - 1), cut.chunks);
  WriteFrom((n - 1) * cut.chunks, cut, to, schedule);
  return RunRing(schedule, outgoing, incoming, taken);
}

// A chain to the root, from the rank after it on: each adds its own chunk to what arrives and passes the sum on.
//   time = (S + (n-2) * chunk) / bandwidth + (n-1) * latency
absl::Status FabricCommunicator::ChainReduce(const CommCall& call) {
  const FabricCut cut = Cut(call.count, 1, call.dtype);
  const bool last = rank() == call.root;
  DISTILL_RETURN_IF_ERROR(Fit(partial_memory_, partial_, kRingWindow * chunk_bytes_));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, Use(call.input, call.bytes()));
  const bool first = Modulo(rank() - 1) == call.root;
  const auto own = [&](int64_t m) { return from.Piece(cut.ChunkBegin(m), cut.ChunkLength(0, m), cut.size); };
  const auto sum = [&](int64_t m) {
    return partial_.Piece(m % kRingWindow * cut.per_chunk, cut.ChunkLength(0, m), cut.size);
  };
  const auto taken = [&](int64_t m) {
    const int64_t elements = cut.ChunkLength(0, m);
    const void* sources[] = {Landing(m, elements, cut.size).data, own(m).data};
    char* out = last ? call.out() + cut.ChunkBegin(m) * cut.size : sum(m).data;
    work_.Reduce(out, sources, 2, elements, call.dtype, call.op, last ? call.divisor(world_size()) : 1);
  };
  RingSchedule schedule = OneWay(cut.chunks, /*outgoing=*/!last, /*incoming=*/!first);
  schedule.lag = first ? cut.chunks : 0;
  schedule.reuse = last ? cut.chunks : kRingWindow;  // a sum that has left makes room for the next
  return RunRing(
      schedule, [&](int64_t m) { return first ? own(m) : sum(m); },
      [&](int64_t m) { return Landing(m, cut.ChunkLength(0, m), cut.size); }, taken);
}

absl::Status FabricCommunicator::RingReduceScatter(const CommCall& call) {
  const int64_t n = world_size();
  const int64_t size = SizeOf(call.dtype);
  const FabricCut cut = Cut(n * call.count, n, call.dtype);
  const ReduceScatterOrder order(n, cut.chunks);
  const int64_t chunk = cut.per_chunk, kept = order.group * chunk;
  DISTILL_RETURN_IF_ERROR(Fit(partial_memory_, partial_, n > 2 ? 2 * kept * size : 1));
  DISTILL_ASSIGN_OR_RETURN(const FabricRegion from, Use(call.input, n * call.bytes()));
  const auto elements = [&](int64_t m) { return cut.ChunkLength(0, order.Chunk(m)); };
  const auto own = [&](int64_t block, int64_t m) {
    return from.Piece(block * call.count + cut.ChunkBegin(order.Chunk(m)), elements(m), size);
  };
  // Partial sums of a group, for two steps that alternate: what one step adds, the next one sends.
  const auto sum = [&](int64_t m) {
    return partial_.Piece(m / order.group % 2 * kept + m % order.group * chunk, elements(m), size);
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
    work_.Reduce(out, sources, 2, elements(m), call.dtype, call.op, last ? call.divisor(world_size()) : 1);
  };
  return RunRing(ScheduleOf(order.rounds(), order.group), outgoing, incoming, taken);
}

}  // namespace distill
