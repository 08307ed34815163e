// Trees by themselves: who has whom below, and that what the ranks' lists move and add comes out right for every root.
#include "libdistill/comm/exchange_tree.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/comm/exchange_runs.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

using testing::ExchangeRun;
using testing::RunAll;
using testing::ValueOf;

constexpr int kRanks[] = {2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64};
using Tree = ExchangeTree (*)(int rank, int ranks, int root);
constexpr std::pair<const char*, Tree> kTrees[] = {{"binomial", BinomialTree}, {"binary", BinaryTree}};

int Depth(int ranks) {
  int depth = 0;
  while (2 << depth <= ranks) ++depth;
  return depth;
}

TEST_CASE(
    "a tree has every rank once below its root, each below the one that it names, at most floor(log2 n) steps away") {
  for (const auto& [name, tree] : kTrees) {
    for (const int ranks : {2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64, 512}) {
      for (const int root : std::set<int>{0, 1, ranks / 2, ranks - 1}) {
        CAPTURE(name, ranks, root);
        CHECK(tree(root, ranks, root).parent == -1);
        std::map<int, int> depth = {{root, 0}};
        std::vector<int> reached = {root};
        for (size_t i = 0; i < reached.size(); ++i) {
          const ExchangeTree here = tree(reached[i], ranks, root);
          for (size_t place = 0; place < here.children.size(); ++place) {
            const ExchangeTree child = tree(here.children[place], ranks, root);
            CHECK(child.parent == reached[i]);
            CHECK(child.place == static_cast<int>(place));
            REQUIRE(depth.emplace(here.children[place], depth[reached[i]] + 1).second);
            CHECK(depth[here.children[place]] <= Depth(ranks));
            reached.push_back(here.children[place]);
          }
        }
        CHECK(reached.size() == static_cast<size_t>(ranks));
      }
    }
  }
}

std::vector<ExchangeRun> RunsOf(Tree tree, int ranks, int root, int64_t count, int64_t chunk, bool reduces) {
  std::vector<ExchangeRun> runs(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    ExchangeRun& made = runs[static_cast<size_t>(rank)];
    const ExchangeShape shape = {rank, ranks, count, chunk, false};
    made.Begin((reduces ? PlanTreeReduce : PlanTreeBroadcast)(shape, tree(rank, ranks, root)), count, count);
    for (int64_t i = 0; i < count; ++i) {
      made.memory[ExchangeBuffer::kInput][static_cast<size_t>(i)] = ValueOf(rank, i);
      if (!reduces && rank == root) made.memory[ExchangeBuffer::kResult][static_cast<size_t>(i)] = ValueOf(root, i);
    }
  }
  return runs;
}

// Ranks meet at these distances (FabricRing::Meet), so that there are connections already.
TEST_CASE("a binomial tree's pairs are at distances that are powers of two, whatever the root") {
  for (const int ranks : {3, 8, 17, 100}) {
    for (int root = 0; root < ranks; ++root) {
      for (int rank = 0; rank < ranks; ++rank) {
        for (const int child : BinomialTree(rank, ranks, root).children) {
          const int distance = (child - rank + ranks) % ranks;
          REQUIRE((distance & (distance - 1)) == 0);
        }
      }
    }
  }
}

TEST_CASE("what goes down a tree reaches all ranks, and what goes up is added once, for every root and odd lengths") {
  for (const auto& [name, tree] : kTrees) {
    for (const int ranks : kRanks) {
      for (int root = 0; root < ranks; ++root) {
        for (const auto& [count, chunk] : {std::pair(1, 4), std::pair(37, 3), std::pair(61, 61)}) {
          CAPTURE(name, ranks, root, count, chunk);
          std::vector<ExchangeRun> down = RunsOf(tree, ranks, root, count, chunk, false);
          REQUIRE(RunAll(down));
          std::vector<int64_t> expected, average;
          for (int64_t i = 0; i < count; ++i) {
            expected.push_back(ValueOf(root, i));
            int64_t sum = 0;
            for (int rank = 0; rank < ranks; ++rank) sum += ValueOf(rank, i);
            average.push_back(sum / ranks);
          }
          for (ExchangeRun& rank : down) REQUIRE(rank.memory[ExchangeBuffer::kResult] == expected);
          std::vector<ExchangeRun> up = RunsOf(tree, ranks, root, count, chunk, true);
          REQUIRE(RunAll(up));
          for (int rank = 0; rank < ranks; ++rank) {
            std::vector<int64_t>& result = up[static_cast<size_t>(rank)].memory[ExchangeBuffer::kResult];
            REQUIRE(result == (rank == root ? average : std::vector<int64_t>(static_cast<size_t>(count), -1)));
          }
        }
      }
    }
  }
}

TEST_CASE("a tree's reduce keeps a bounded number of chunks, however long the data are") {
  for (const auto& [name, tree] : kTrees) {
    for (const int ranks : {3, 64, 512}) {
      CAPTURE(name, ranks);
      const ExchangeTree top = tree(0, ranks, 0);
      const ExchangePlan plan = PlanTreeReduce({0, ranks, 100'000, 10, false}, top);
      CHECK(plan.landing <= 10 * std::max<int64_t>(8, 2 * static_cast<int64_t>(top.children.size())));
    }
  }
}

TEST_CASE("the root of a binomial tree starts to send to all its children at once") {
  const ExchangePlan plan = PlanTreeBroadcast({0, 512, 1, 1, false}, BinomialTree(0, 512, 0));
  CHECK(plan.outgoing.size() == 9);
  CHECK(plan.window >= 9);
  CHECK(plan.outgoing.front().peer == 256);  // with most ranks behind it
}

}  // namespace
}  // namespace distill
