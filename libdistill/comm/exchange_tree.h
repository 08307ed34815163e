// Trees of ranks, and the lists of exchange.h for a broadcast and a reduce along them. Internal to comm/.
#pragma once

#include <vector>

#include "libdistill/comm/exchange.h"

namespace distill {

// One rank's neighbours in a tree of all ranks.
struct ExchangeTree {
  int parent = -1;            // none: this rank is the root
  int place = 0;              // this rank's among its parent's children
  std::vector<int> children;  // in the order in which a reduce adds them
};

// `root` is on top; ranks count from it on, modulo `ranks`. The essay is with the code.
ExchangeTree BinomialTree(int rank, int ranks, int root);
ExchangeTree BinaryTree(int rank, int ranks, int root);

// The result, which the root has already, goes to all.
ExchangePlan PlanTreeBroadcast(const ExchangeShape& shape, const ExchangeTree& tree);
// The root's result = op over ranks of input. Other ranks write landing memory alone.
ExchangePlan PlanTreeReduce(const ExchangeShape& shape, const ExchangeTree& tree);

}  // namespace distill
