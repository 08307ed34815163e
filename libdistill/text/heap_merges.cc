// A heap of candidates over a linked list, O(n log n) for n symbols, so that a megabyte without spaces is no attack. A
// candidate whose symbols changed since it was pushed is recognised when it is popped.
#include "libdistill/text/heap_merges.h"

#include <functional>
#include <queue>
#include <utility>

namespace distill {

void MergeByHeap(const PairTable& merges, std::vector<MergeSymbol>* symbols) {
  struct Node {
    MergeSymbol symbol;
    int64_t previous, next;  // -1: none
  };
  using Candidate = std::pair<uint32_t, int64_t>;  // rank, position of the left symbol
  const int64_t count = static_cast<int64_t>(symbols->size());
  std::vector<Node> nodes(symbols->size());
  for (int64_t i = 0; i < count; ++i) nodes[i] = {(*symbols)[i], i - 1, i + 1 < count ? i + 1 : -1};
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto merge_at = [&](int64_t i) {
    return i < 0 || nodes[i].symbol.id < 0 || nodes[i].next < 0
               ? PairTable::Merge{}
               : merges.Of(nodes[i].symbol.id, nodes[nodes[i].next].symbol.id);
  };
  const auto push = [&](int64_t i) {
    if (const auto merge = merge_at(i); merge.rank != PairTable::kNoRank) heap.emplace(merge.rank, i);
  };
  for (int64_t i = 0; i < count; ++i) push(i);
  while (!heap.empty()) {
    const auto [rank, i] = heap.top();
    heap.pop();
    const PairTable::Merge merge = merge_at(i);
    if (merge.rank != rank) continue;
    const int64_t right = nodes[i].next;
    nodes[i] = {{merge.id, nodes[i].symbol.size + nodes[right].symbol.size}, nodes[i].previous, nodes[right].next};
    if (nodes[i].next >= 0) nodes[nodes[i].next].previous = i;
    nodes[right].symbol.id = -1;  // gone
    push(nodes[i].previous);
    push(i);
  }
  symbols->clear();
  for (int64_t i = 0; i >= 0 && i < count; i = nodes[i].next) symbols->push_back(nodes[i].symbol);
}

}  // namespace distill
