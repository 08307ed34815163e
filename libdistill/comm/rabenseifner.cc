// Rabenseifner's all-reduce (2004, "Optimization of collective reduction operations"; Thakur, Rabenseifner, Gropp
// 2005): a reduce-scatter by recursive halving, then an all-gather by recursive doubling.
//
//   halving, distance 2     halving, distance 1      doubling: the same pairs, in the opposite order
//   0 <--> 2   1 <--> 3     0 <--> 1   2 <--> 3
//   0, 1 keep the first     0, 2 keep the first      each sends what it has finished and gets the other's
//   half, 2, 3 the second   half of theirs
//
//   time = 2 log2(n) latency + 2(n-1)/n * S / bandwidth + (n-1)/n * S * addition
// as many bytes as the ring, in far fewer steps; but the pairs are far apart, and what a step adds the next one sends,
// so that links idle where data are not cut into chunks. One rank finishes each element, and its bits are copied.
// Other n than powers of two fold as in recursive doubling, which costs two transfers of all data.
#include <vector>

#include "libdistill/comm/exchange_writer.h"

namespace distill {
namespace {

// One exchange of the halving, for the doubling to undo.
struct Halving {
  int peer;
  ElementRange kept, sent;
  int64_t left;  // outgoing messages up to here include all of `sent`
};

}  // namespace

ExchangePlan PlanRabenseifner(const ExchangeShape& shape) {
  const ExchangeFold fold(shape);
  ExchangeWriter writer(shape);
  int unfold = 1;
  for (int distance = 1; distance < fold.parts; distance *= 2) unfold += 2;
  const auto at_once = [](int64_t) -> int64_t { return 0; };
  if (fold.hands_over) return PlanHandOver(shape, unfold);
  ExchangePlace own = TakeOver(fold, shape, writer);
  std::vector<Halving> halvings;
  ElementRange mine = writer.Whole();
  int64_t before = 0;  // incoming messages before those that `mine` was summed from
  int step = 1;
  for (int distance = fold.parts / 2; distance > 0; distance /= 2, ++step) {
    const int64_t middle = mine.begin + mine.length() / 2;
    ElementRange lower = {mine.begin, middle}, upper = {middle, mine.end};
    const bool keeps_upper = (fold.part & distance) != 0;
    Halving halving = {fold.RankOf(fold.part ^ distance), keeps_upper ? upper : lower, keeps_upper ? lower : upper, 0};
    const int64_t here = writer.in();
    writer.Send(step, halving.peer, own, halving.sent,
                [&](int64_t end) { return own == kInputPlace ? 0 : before + writer.Chunks(end - mine.begin); });
    halving.left = writer.out();
    writer.Add(step, halving.peer, own, kResultPlace, halving.kept, distance == 1, at_once);
    own = kResultPlace;
    before = here;
    mine = halving.kept;
    halvings.push_back(halving);
  }
  const auto all_so_far = [&writer](int64_t) { return writer.in(); };
  for (; !halvings.empty(); halvings.pop_back(), ++step) {
    const Halving& halving = halvings.back();
    writer.Send(step, halving.peer, own, halving.kept, all_so_far);
    writer.Store(step, halving.peer, halving.sent, [&](int64_t) { return halving.left; });
  }
  if (fold.takes_over) writer.Send(unfold, shape.rank - 1, own, writer.Whole(), all_so_far);
  return writer.Take();
}

}  // namespace distill
