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

namespace distill {
namespace {

constexpr int64_t kGroups = 2;  // chunks of this rank's block that land at one time

class Writer {
 public:
  // `own_first`: where this rank's block begins in the result.
  Writer(const ExchangeShape& shape, int64_t own_first) : shape_(shape), own_first_(own_first) {
    plan_.window = std::max<int64_t>(plan_.window, (kGroups + 1) * (shape.ranks - 1));
    chunk_ = std::min(shape.chunk, Length(0));
    chunks_ = chunk_ == 0 ? 0 : (Length(0) + chunk_ - 1) / chunk_;
  }
  int64_t chunks() const { return chunks_; }

  // Chunk c of every other rank's block goes to it, and what the others send for this rank's is added.
  void Scatter(int64_t c) {
    const int64_t group = c % kGroups * (shape_.ranks - 1);
    const int64_t reused = c < kGroups ? 0 : taken_[static_cast<size_t>(c - kGroups)];
    const int64_t mine = ChunkLength(shape_.rank, c);
    for (int distance = 1; distance < shape_.ranks; ++distance) {
      const int to = (shape_.rank + distance) % shape_.ranks;
      const int from = (shape_.rank - distance + shape_.ranks) % shape_.ranks;
      if (ChunkLength(to, c) > 0) {
        plan_.outgoing.push_back(
            {to, Number(distance, 2 * c), ExchangeBuffer::kInput, Begin(to) + c * chunk_, ChunkLength(to, c), 0, 0});
      }
      if (mine == 0) continue;
      const int64_t landing = (group + from - (from > shape_.rank ? 1 : 0)) * chunk_;
      plan_.incoming.push_back({from, Number(distance, 2 * c), ExchangeBuffer::kLanding, landing, mine, reused, 0});
    }
    left_.push_back(static_cast<int64_t>(plan_.outgoing.size()));
    taken_.push_back(static_cast<int64_t>(plan_.incoming.size()));
    if (mine > 0) AddAll(c, mine, group * chunk_);
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
      if (const int64_t mine = ChunkLength(shape_.rank, c); mine > 0) {
        plan_.outgoing.push_back(
            {to, Number(distance, 2 * c + 1), ExchangeBuffer::kResult, own_first_ + c * chunk_, mine, available, 0});
      }
      if (const int64_t theirs = ChunkLength(from, c); theirs > 0) {
        plan_.incoming.push_back(
            {from, Number(distance, 2 * c + 1), ExchangeBuffer::kResult, Begin(from) + c * chunk_, theirs, 0, left});
      }
    }
  }

  ExchangePlan Take() { return std::move(plan_); }

 private:
  // Every rank comes to the same blocks, of nearly the same length.
  int64_t Begin(int64_t block) const {
    return block * (shape_.count / shape_.ranks) + std::min(block, shape_.count % shape_.ranks);
  }
  int64_t Length(int64_t block) const { return Begin(block + 1) - Begin(block); }
  int64_t ChunkLength(int64_t block, int64_t c) const {
    return std::clamp<int64_t>(Length(block) - c * chunk_, 0, chunk_);
  }
  // The distance says who sends.
  uint32_t Number(int distance, int64_t round) const {
    return static_cast<uint32_t>(round * (shape_.ranks - 1) + distance - 1);
  }
  void AddAll(int64_t c, int64_t count, int64_t landing) {
    plan_.landing = std::max(plan_.landing, landing + (shape_.ranks - 1) * chunk_);
    plan_.reductions.push_back({.incoming = taken_.back() - 1,
                                .own = ExchangeBuffer::kInput,
                                .own_first = Begin(shape_.rank) + c * chunk_,
                                .result_first = own_first_ + c * chunk_,
                                .count = count,
                                .landing_first = landing,
                                .landing_stride = chunk_,
                                .sources = shape_.ranks - 1,
                                .own_place = shape_.rank,
                                .last = true});
  }

  const ExchangeShape shape_;
  const int64_t own_first_;
  int64_t chunk_ = 0;
  int64_t chunks_ = 0;
  std::vector<int64_t> left_;   // by chunk: outgoing messages up to the end of its scattering
  std::vector<int64_t> taken_;  // and incoming ones
  ExchangePlan plan_;
};

int64_t BlockBegin(const ExchangeShape& shape) {
  return shape.rank * (shape.count / shape.ranks) + std::min<int64_t>(shape.rank, shape.count % shape.ranks);
}

}  // namespace

ExchangePlan PlanDirectAllReduce(const ExchangeShape& shape) {
  Writer writer(shape, BlockBegin(shape));
  for (int64_t c = 0; c < writer.chunks(); ++c) {
    writer.Scatter(c);
    if (c > 0) writer.Gather(c - 1);
  }
  if (writer.chunks() > 0) writer.Gather(writer.chunks() - 1);
  return writer.Take();
}

ExchangePlan PlanDirectReduceScatter(const ExchangeShape& shape) {
  Writer writer(shape, 0);
  for (int64_t c = 0; c < writer.chunks(); ++c) writer.Scatter(c);
  return writer.Take();
}

ExchangePlan PlanDirectAllGather(const ExchangeShape& shape) {
  Writer writer(shape, BlockBegin(shape));
  for (int64_t c = 0; c < writer.chunks(); ++c) writer.Gather(c);
  return writer.Take();
}

}  // namespace distill
