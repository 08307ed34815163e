// Trees, for a broadcast from one rank and a reduce to one. The chain of all ranks (fabric_ring.cc) sends the fewest
// bytes a rank, but its last rank is n-1 messages away from the first.
//
//   binomial, 8 ranks                          binary, 7 ranks
//   0 -+-> 4 -+-> 6 ---> 7                     0 -+-> 1 -+-> 3        rank r is here the one that is r after
//      |      +-> 5                               |      +-> 4        the root
//      +-> 2 ---> 3                               +-> 2 -+-> 5
//      +-> 1                                             +-> 6
//
// Both are d = floor(log2 n) messages deep; the binomial tree's root has r = ceil(log2 n) children:
//   binomial   time = d latency + (r-d) gap + r S / bandwidth                            for short data
//   binary     time = d (latency + gap) + 2 (d-1) chunk / bandwidth + 2 S / bandwidth    for longer data
//   chain      time = (n-1) latency + (n-2) chunk / bandwidth + S / bandwidth            for the longest
// A broadcast sends to the child with most ranks behind it first. A reduce goes the other way: a rank adds chunk c of
// all its children to its own at once, in the order of their numbers, 16-bit types in float32 with one rounding, and
// passes the sum on. A rank's children in the binomial tree have the ranks right behind it: sums are of neighbours.
// Data travel in chunks: a rank passes one on while the next is on its way.
#include "libdistill/comm/exchange_tree.h"

#include <algorithm>

namespace distill {
namespace {

// Sums that wait to leave; as many chunks of each child land at one time, or at least two.
constexpr int64_t kSums = 8;

int64_t Chunks(const ExchangeShape& shape) { return (shape.count + shape.chunk - 1) / shape.chunk; }

// Consecutive numbers alternate over the rails. Of 2, 4, 8 or 16 rails the chunks of two children with the same number
// take two that are next to each other. Of 3 or 32, say, each child's chunks alternate over all rails as well, but
// those of two children may take the same one.
uint32_t Number(const ExchangeShape& shape, int64_t place, int64_t c) {
  constexpr int64_t kRails = 16;
  const int64_t stride = (Chunks(shape) + kRails - 1) / kRails * kRails + 1;
  return static_cast<uint32_t>(place * stride + c);
}

// From a rank's number to its distance from the root, and back.
int After(int rank, int ranks, int root) { return (rank - root + ranks) % ranks; }
int RankAt(int after, int ranks, int root) { return (after + root) % ranks; }

int64_t WindowOf(const ExchangeTree& tree) {
  return std::max<int64_t>(kSums, 2 * static_cast<int64_t>(tree.children.size()));
}

}  // namespace

ExchangeTree BinomialTree(int rank, int ranks, int root) {
  ExchangeTree tree;
  const int self = After(rank, ranks, root);
  int bit = 1;
  for (; self + bit < ranks && (self & bit) == 0; bit *= 2) tree.children.push_back(RankAt(self + bit, ranks, root));
  if (self == 0) return tree;
  const int lowest = self & -self;
  while (1 << tree.place < lowest) ++tree.place;
  tree.parent = RankAt(self - lowest, ranks, root);
  return tree;
}

ExchangeTree BinaryTree(int rank, int ranks, int root) {
  ExchangeTree tree;
  const int self = After(rank, ranks, root);
  for (const int child : {2 * self + 1, 2 * self + 2}) {
    if (child < ranks) tree.children.push_back(RankAt(child, ranks, root));
  }
  if (self == 0) return tree;
  tree.place = (self - 1) % 2;
  tree.parent = RankAt((self - 1) / 2, ranks, root);
  return tree;
}

ExchangePlan PlanTreeBroadcast(const ExchangeShape& shape, const ExchangeTree& tree) {
  ExchangePlan plan;
  plan.window = WindowOf(tree);
  for (int64_t c = 0; c < Chunks(shape); ++c) {
    const int64_t first = c * shape.chunk, count = std::min(shape.chunk, shape.count - first);
    if (tree.parent >= 0) {
      plan.incoming.push_back({tree.parent, Number(shape, tree.place, c), ExchangeBuffer::kResult, first, count, 0, 0});
    }
    const auto here = static_cast<int64_t>(plan.incoming.size());
    for (size_t i = tree.children.size(); i-- > 0;) {
      plan.outgoing.push_back({tree.children[i], Number(shape, static_cast<int64_t>(i), c), ExchangeBuffer::kResult,
                               first, count, here, 0});
    }
  }
  return plan;
}

ExchangePlan PlanTreeReduce(const ExchangeShape& shape, const ExchangeTree& tree) {
  ExchangePlan plan;
  plan.window = WindowOf(tree);
  const auto children = static_cast<int64_t>(tree.children.size());
  const bool is_root = tree.parent < 0;
  const int64_t longest = std::min(shape.chunk, shape.count);
  const int64_t groups = std::max<int64_t>(2, kSums / std::max<int64_t>(1, children));
  const int64_t sums = groups * children * longest;  // where they begin in the landing memory
  if (children > 0) plan.landing = sums + (is_root ? 0 : kSums * longest);
  for (int64_t c = 0; c < Chunks(shape); ++c) {
    const int64_t first = c * shape.chunk, count = std::min(shape.chunk, shape.count - first);
    const int64_t landing = c % groups * children * longest, sum = sums + c % kSums * longest;
    const int64_t reused = std::max<int64_t>(0, (c - groups + 1) * children);
    for (int64_t i = 0; i < children; ++i) {
      plan.incoming.push_back({tree.children[static_cast<size_t>(i)], Number(shape, i, c), ExchangeBuffer::kLanding,
                               landing + i * longest, count, reused, 0});
    }
    if (children > 0) {
      plan.reductions.push_back({.incoming = (c + 1) * children - 1,
                                 .after_outgoing = is_root ? 0 : std::max<int64_t>(0, c - kSums + 1),
                                 .own_first = first,
                                 .result_first = is_root ? first : sum,
                                 .count = count,
                                 .landing_first = landing,
                                 .landing_stride = longest,
                                 .sources = static_cast<int>(children),
                                 .last = is_root,
                                 .into = is_root ? ExchangeBuffer::kResult : ExchangeBuffer::kLanding});
    }
    if (is_root) continue;
    plan.outgoing.push_back({tree.parent, Number(shape, tree.place, c),
                             children > 0 ? ExchangeBuffer::kLanding : ExchangeBuffer::kInput,
                             children > 0 ? sum : first, count, (c + 1) * children, 0});
  }
  return plan;
}

}  // namespace distill
