// Direct exchange, for what lies between short and long: every rank sends block r straight to rank r, which adds all n
// and sends the result straight to all.
//
//               block 0  block 1  block 2
//   rank 0      [ a0 ]   [ a1 ] -----------> rank 1      rank 1 adds a1, b1, c1, in the order of the ranks, and sends
//   rank 1      [ b0 ]   [ b1 ]   [ b2 ]                 the sum to ranks 0 and 2; likewise the others
//   rank 2      [ c0 ]   [ c1 ] -----------> rank 1
//
//   time = 2 latency + 2(n-2) gap + 2(n-1)/n * S / bandwidth + (n-1)/n * S * addition
// two latencies and as few bytes as the ring, but n-1 messages at a time to and from every rank, for each of which rank
// and network take some time of their own (gap): for many ranks the ring's neighbours are cheaper. All n sources are
// added at once: float16 and bfloat16 in float32, rounded once. One rank finishes each block and its bits are copied.
// Blocks are cut into chunks: while one chunk is added and passed on the next two are on their way. Reduce-scatter and
// all-gather are one half each.
#include <algorithm>

#include "libdistill/comm/exchange.h"
#include "libdistill/comm/fabric_cut.h"

namespace distill {
namespace {

constexpr int64_t kGroups = 2;  // chunks of this rank's block that land at one time

class Writer {
 public:
  // `has_all`: the result has every rank's block, else this rank's alone.
  Writer(const ExchangeShape& shape, bool has_all)
      : shape_(shape),
        cut_(shape.count, shape.ranks, /*element_bytes=*/1, shape.chunk),
        own_first_(has_all ? cut_.Begin(shape.rank) : 0) {
    plan_.window = std::max<int64_t>(plan_.window, (kGroups + 1) * (shape.ranks - 1));
  }
  int64_t chunks() const { return cut_.chunks; }

  // Chunk c of every other rank's block goes to it, and what the others send for this rank's is added.
  void Scatter(int64_t c) {
    const int64_t group = c % kGroups * (shape_.ranks - 1);
    const int64_t reused = c < kGroups ? 0 : taken_[static_cast<size_t>(c - kGroups)];
    const int64_t mine = cut_.ChunkLength(shape_.rank, c);
    for (int distance = 1; distance < shape_.ranks; ++distance) {
      const int to = (shape_.rank + distance) % shape_.ranks;
      const int from = (shape_.rank - distance + shape_.ranks) % shape_.ranks;
      if (cut_.ChunkLength(to, c) > 0) {
        plan_.outgoing.push_back({to, Number(distance, 2 * c), ExchangeBuffer::kInput,
                                  cut_.Begin(to) + cut_.ChunkBegin(c), cut_.ChunkLength(to, c), 0, 0});
      }
      if (mine == 0) continue;
      const int64_t landing = (group + from - (from > shape_.rank ? 1 : 0)) * cut_.per_chunk;
      plan_.incoming.push_back({from, Number(distance, 2 * c), ExchangeBuffer::kLanding, landing, mine, reused, 0});
    }
    left_.push_back(static_cast<int64_t>(plan_.outgoing.size()));
    taken_.push_back(static_cast<int64_t>(plan_.incoming.size()));
    if (mine > 0) AddAll(c, mine, group * cut_.per_chunk);
  }

  // Chunk c of this rank's block goes to every other, and theirs come.
  void Gather(int64_t c) {
    const bool scattered = !taken_.empty();
    const int64_t available = scattered ? taken_[static_cast<size_t>(c)] : 0;
    // In place, what comes overwrites what was sent.
    const int64_t left = scattered && shape_.in_place ? left_[static_cast<size_t>(c)] : 0;
    for (int distance = 1; distance < shape_.ranks; ++distance) {
      const int to = (shape_.rank + distance) % shape_.ranks;
      const int from = (shape_.rank - distance + shape_.ranks) % shape_.ranks;
      if (const int64_t mine = cut_.ChunkLength(shape_.rank, c); mine > 0) {
        plan_.outgoing.push_back({to, Number(distance, 2 * c + 1), ExchangeBuffer::kResult,
                                  own_first_ + cut_.ChunkBegin(c), mine, available, 0});
      }
      if (const int64_t theirs = cut_.ChunkLength(from, c); theirs > 0) {
        plan_.incoming.push_back({from, Number(distance, 2 * c + 1), ExchangeBuffer::kResult,
                                  cut_.Begin(from) + cut_.ChunkBegin(c), theirs, 0, left});
      }
    }
  }

  ExchangePlan Take() { return std::move(plan_); }

 private:
  // The distance says who sends.
  uint32_t Number(int distance, int64_t round) const {
    return static_cast<uint32_t>(round * (shape_.ranks - 1) + distance - 1);
  }
  void AddAll(int64_t c, int64_t count, int64_t landing) {
    plan_.landing = std::max(plan_.landing, landing + (shape_.ranks - 1) * cut_.per_chunk);
    plan_.reductions.push_back({.incoming = taken_.back() - 1,
                                .own = ExchangeBuffer::kInput,
                                .own_first = cut_.Begin(shape_.rank) + cut_.ChunkBegin(c),
                                .result_first = own_first_ + cut_.ChunkBegin(c),
                                .count = count,
                                .landing_first = landing,
                                .landing_stride = cut_.per_chunk,
                                .sources = shape_.ranks - 1,
                                .own_place = shape_.rank,
                                .last = true});
  }

  const ExchangeShape shape_;
  const FabricCut cut_;         // of elements
  const int64_t own_first_;     // where this rank's block begins in the result
  std::vector<int64_t> left_;   // by chunk: outgoing messages up to the end of its scattering
  std::vector<int64_t> taken_;  // and incoming ones
  ExchangePlan plan_;
};

}  // namespace

ExchangePlan PlanDirectAllReduce(const ExchangeShape& shape) {
  Writer writer(shape, /*has_all=*/true);
  for (int64_t c = 0; c < writer.chunks(); ++c) {
    writer.Scatter(c);
    if (c > 0) writer.Gather(c - 1);
  }
  if (writer.chunks() > 0) writer.Gather(writer.chunks() - 1);
  return writer.Take();
}

ExchangePlan PlanDirectReduceScatter(const ExchangeShape& shape) {
  Writer writer(shape, /*has_all=*/false);
  for (int64_t c = 0; c < writer.chunks(); ++c) writer.Scatter(c);
  return writer.Take();
}

ExchangePlan PlanDirectAllGather(const ExchangeShape& shape) {
  Writer writer(shape, /*has_all=*/true);
  for (int64_t c = 0; c < writer.chunks(); ++c) writer.Gather(c);
  return writer.Take();
}

}  // namespace distill
