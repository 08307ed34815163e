// The message lists of the algorithms by themselves: that the ranks' lists fit together, come to an end, and write to
// no memory that may still be on its way.
#include "libdistill/comm/exchange.h"

#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "libdistill/comm/exchange_tree.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

struct Algorithm {
  const char* name;
  ExchangePlan (*plan)(const ExchangeShape&);
  bool whole_blocks;       // counts are multiples of the number of ranks
  bool results_elsewhere;  // also in place: a rank's result is its own block, which it sends to nobody
};
// Trees from the second rank.
template <auto kPlan, auto kTree>
ExchangePlan PlanTree(const ExchangeShape& shape) {
  return kPlan(shape, kTree(shape.rank, shape.ranks, 1));
}
constexpr Algorithm kAlgorithms[] = {{"recursive doubling", PlanRecursiveDoubling, false, false},
                                     {"rabenseifner", PlanRabenseifner, false, false},
                                     {"direct all-reduce", PlanDirectAllReduce, false, false},
                                     {"direct reduce-scatter", PlanDirectReduceScatter, true, true},
                                     {"direct all-gather", PlanDirectAllGather, true, false},
                                     {"binomial broadcast", PlanTree<PlanTreeBroadcast, BinomialTree>, false, false},
                                     {"binary broadcast", PlanTree<PlanTreeBroadcast, BinaryTree>, false, false},
                                     {"binomial reduce", PlanTree<PlanTreeReduce, BinomialTree>, false, false},
                                     {"binary reduce", PlanTree<PlanTreeReduce, BinaryTree>, false, false}};

// Calls `check` with every rank's plan of every algorithm over a grid of worlds, lengths and chunks.
void ForEach(const std::function<void(const std::vector<ExchangePlan>&, bool in_place)>& check) {
  for (const Algorithm& algorithm : kAlgorithms) {
    for (int ranks = 2; ranks <= 9; ++ranks) {
      for (const int64_t count : {0, 1, 3, 7, 16, 61}) {
        for (const int64_t chunk : {1, 4, 1000}) {
          for (const bool in_place : {false, true}) {
            std::vector<ExchangePlan> plans;
            const int64_t all = algorithm.whole_blocks ? count * ranks : count;
            for (int rank = 0; rank < ranks; ++rank)
              plans.push_back(algorithm.plan({rank, ranks, all, chunk, in_place}));
            CAPTURE(algorithm.name, ranks, count, chunk, in_place);
            check(plans, in_place && !algorithm.results_elsewhere);
          }
        }
      }
    }
  }
}

TEST_CASE("what a rank sends is what another expects, under a number of its own") {
  using Key = std::tuple<int, int, uint32_t>;  // from, to, number
  ForEach([](const std::vector<ExchangePlan>& plans, bool) {
    std::map<Key, int64_t> sent, expected;
    for (int rank = 0; rank < static_cast<int>(plans.size()); ++rank) {
      std::set<uint32_t> numbers;
      for (const ExchangeMessage& m : plans[static_cast<size_t>(rank)].outgoing) {
        sent[{rank, m.peer, m.number}] = m.count;
      }
      for (const ExchangeMessage& m : plans[static_cast<size_t>(rank)].incoming) {
        expected[{m.peer, rank, m.number}] = m.count;
        numbers.insert(m.number);
      }
      CHECK(numbers.size() == plans[static_cast<size_t>(rank)].incoming.size());
    }
    CHECK(sent == expected);
  });
}

// Lets every rank go as far as its list allows, until nothing moves: messages that both ends have started arrive.
bool ComesToAnEnd(const std::vector<ExchangePlan>& plans) {
  struct Progress {
    size_t sends = 0, receives = 0, left = 0, taken = 0;
  };
  std::vector<Progress> at(plans.size());
  std::set<std::tuple<int, int, uint32_t>> sent, posted;
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < static_cast<int>(plans.size()); ++rank) {
      const ExchangePlan& plan = plans[static_cast<size_t>(rank)];
      Progress& p = at[static_cast<size_t>(rank)];
      const auto may_start = [&](const std::vector<ExchangeMessage>& list, size_t started, size_t finished) {
        return started < list.size() && static_cast<int64_t>(started - finished) < plan.window &&
               list[started].after_incoming <= static_cast<int64_t>(p.taken) &&
               list[started].after_outgoing <= static_cast<int64_t>(p.left);
      };
      for (; may_start(plan.incoming, p.receives, p.taken); moved = true) {
        const ExchangeMessage& m = plan.incoming[p.receives++];
        posted.insert({m.peer, rank, m.number});
      }
      for (; may_start(plan.outgoing, p.sends, p.left); moved = true) {
        const ExchangeMessage& m = plan.outgoing[p.sends++];
        sent.insert({rank, m.peer, m.number});
      }
      // The worst case: a message has left only once its receive was posted.
      while (p.left < p.sends && posted.count({rank, plan.outgoing[p.left].peer, plan.outgoing[p.left].number}) > 0) {
        ++p.left, moved = true;
      }
      while (p.taken < p.receives &&
             sent.count({plan.incoming[p.taken].peer, rank, plan.incoming[p.taken].number}) > 0) {
        const auto here = std::find_if(plan.reductions.begin(), plan.reductions.end(), [&](const ExchangeReduction& r) {
          return r.incoming == static_cast<int64_t>(p.taken);
        });
        if (here != plan.reductions.end() && here->after_outgoing > static_cast<int64_t>(p.left)) break;
        ++p.taken, moved = true;
      }
    }
  }
  for (size_t rank = 0; rank < plans.size(); ++rank) {
    if (at[rank].left < plans[rank].outgoing.size() || at[rank].taken < plans[rank].incoming.size()) return false;
  }
  return true;
}

TEST_CASE("no rank waits for what waits for it, also where messages are not buffered") {
  ForEach([](const std::vector<ExchangePlan>& plans, bool) { CHECK(ComesToAnEnd(plans)); });
}

// Elements of one of the caller's buffers, or of the landing memory.
struct Use {
  ExchangeBuffer buffer;
  int64_t first, count;
  bool Overlaps(const Use& other, bool in_place) const {
    const auto place = [in_place](ExchangeBuffer b) {
      return in_place && b == ExchangeBuffer::kInput ? ExchangeBuffer::kResult : b;
    };
    return place(buffer) == place(other.buffer) && first < other.first + other.count && other.first < first + count;
  }
};

// Whether every write to memory that message `o` sends comes surely before it starts, or after it has left.
bool IsSentWhole(const ExchangePlan& plan, size_t o, bool in_place) {
  const ExchangeMessage& sent = plan.outgoing[o];
  const Use read = {sent.buffer, sent.first, sent.count};
  for (size_t i = 0; i < plan.incoming.size(); ++i) {
    const ExchangeMessage& m = plan.incoming[i];
    const bool arrived_before = sent.after_incoming > static_cast<int64_t>(i);
    const bool starts_after = m.after_outgoing > static_cast<int64_t>(o);
    if (read.Overlaps({m.buffer, m.first, m.count}, in_place) && !arrived_before && !starts_after) return false;
  }
  for (const ExchangeReduction& r : plan.reductions) {
    const bool added_before = sent.after_incoming > r.incoming;
    const bool added_after = r.after_outgoing > static_cast<int64_t>(o);
    if (read.Overlaps({r.into, r.result_first, r.count}, in_place) && !added_before && !added_after) {
      return false;
    }
  }
  return true;
}

// Whether message i lands where nothing that is still to be added lies.
bool LandsOnFreeMemory(const ExchangePlan& plan, size_t i) {
  const ExchangeMessage& m = plan.incoming[i];
  if (m.first + m.count > plan.landing) return false;
  for (size_t earlier = 0; earlier < i; ++earlier) {
    const ExchangeMessage& e = plan.incoming[earlier];
    if (e.buffer != m.buffer || m.first >= e.first + e.count || e.first >= m.first + m.count) continue;
    const auto added = std::find_if(plan.reductions.begin(), plan.reductions.end(), [&](const ExchangeReduction& r) {
      return r.incoming >= static_cast<int64_t>(earlier);
    });
    const int64_t taken = std::max<int64_t>(m.after_incoming, static_cast<int64_t>(i) - plan.window + 1);
    if (added == plan.reductions.end() || added->incoming >= taken) return false;
  }
  return true;
}

TEST_CASE("nothing is overwritten while it is sent or before it is added") {
  ForEach([](const std::vector<ExchangePlan>& plans, bool in_place) {
    for (const ExchangePlan& plan : plans) {
      for (size_t o = 0; o < plan.outgoing.size(); ++o) CHECK(IsSentWhole(plan, o, in_place));
      for (size_t i = 0; i < plan.incoming.size(); ++i) {
        if (plan.incoming[i].buffer == ExchangeBuffer::kLanding) CHECK(LandsOnFreeMemory(plan, i));
      }
    }
  });
}

// How many messages may be under way before any has come.
size_t StartsAtOnce(const ExchangePlan& plan, const std::vector<ExchangeMessage>& messages) {
  size_t count = 0;
  while (count < messages.size() && static_cast<int64_t>(count) < plan.window && messages[count].after_incoming == 0 &&
         messages[count].after_outgoing == 0) {
    ++count;
  }
  return count;
}

// An acknowledgement takes a latency of its own: a step that waits for one takes two.
TEST_CASE("recursive doubling of short data waits for no message of the same step to have left") {
  for (const int ranks : {2, 4, 8, 64}) {
    const ExchangePlan plan = PlanRecursiveDoubling({0, ranks, 100, 100, false});
    CAPTURE(ranks);
    for (size_t step = 0; step < plan.reductions.size(); ++step) {
      CHECK(plan.reductions[step].after_outgoing <= static_cast<int64_t>(step));
    }
    CHECK(plan.reductions.back().into == ExchangeBuffer::kResult);
  }
}

TEST_CASE("long data are cut so that at least two chunks are under way each way") {
  for (int ranks = 2; ranks <= 16; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      CAPTURE(ranks, rank);
      const ExchangeShape shape = {rank, ranks, 100'000, 10, false};
      const ExchangePlan direct = PlanDirectAllReduce(shape);
      CHECK(StartsAtOnce(direct, direct.outgoing) >= 2 * static_cast<size_t>(ranks - 1));
      CHECK(StartsAtOnce(direct, direct.incoming) >= 2 * static_cast<size_t>(ranks - 1));
      for (const auto plan : {PlanRecursiveDoubling, PlanRabenseifner}) {
        const ExchangePlan made = plan(shape);
        CHECK(StartsAtOnce(made, made.incoming) >= 2);
        const bool waits_for_surplus = made.outgoing[0].after_incoming > 0;  // chunk by chunk as well
        CHECK((waits_for_surplus || StartsAtOnce(made, made.outgoing) >= 2));
      }
    }
  }
}

}  // namespace
}  // namespace distill
