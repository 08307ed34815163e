// Recursive doubling, for short data: in step k each rank exchanges everything it has with the one whose number differs
// in bit k, and both add.
//
//   step 0        step 1            ranks        0    1    2    3
//   0 <--> 1      0 <--> 2          before       a    b    c    d
//   2 <--> 3      1 <--> 3          after 0      ab   ab   cd   cd
//                                   after 1      abcd abcd abcd abcd
//
//   time = log2(n) (latency + S / bandwidth + S * addition)
// The ring takes 2(n-1) latencies, but sends 2(n-1)/n of the data instead of log2(n) times all of them. For other n
// than powers of two the surplus ranks hand their data to a neighbour first and get the result at the end
// (ExchangeFold): two steps more. Both ranks of a pair add the lower ranks' sum to the higher ranks', in this order: by
// induction all ranks of a group hold the same bits after every step. Long data travel in chunks: a chunk's next step
// starts when its last one has ended, whatever the others do.
// Sums go to the result and to spare memory alternately, so that no step waits until what the last one sent has
// arrived: a sender hears of that a whole latency later. Data that are longer than what lands at one time have no spare
// memory.
#include "libdistill/comm/exchange_writer.h"

namespace distill {

ExchangePlan PlanRecursiveDoubling(const ExchangeShape& shape) {
  const ExchangeFold fold(shape);
  ExchangeWriter writer(shape);
  int unfold = fold.surplus > 0 ? 1 : 0;
  for (int distance = 1; distance < fold.parts; distance *= 2) ++unfold;
  if (fold.hands_over) return PlanHandOver(shape, unfold);
  ExchangePlace own = TakeOver(fold, shape, writer);
  const ExchangePlace spare = writer.Spare();
  int64_t before = 0;  // incoming messages before those of the last step
  const auto available = [&](int64_t end) { return own == kInputPlace ? 0 : before + writer.Chunks(end); };
  // The last step that sends from the result, and from the spare memory: its first message; -1: none does.
  int64_t from_result = -1, from_spare = -1;
  for (int step = fold.surplus > 0 ? 1 : 0; step < unfold; ++step) {
    const int distance = 1 << (step - (fold.surplus > 0 ? 1 : 0));
    const int peer = fold.RankOf(fold.part ^ distance);
    const int64_t here = writer.in();
    if (own == kResultPlace || (own == kInputPlace && shape.in_place)) from_result = writer.out();
    if (own == spare && own != kResultPlace) from_spare = writer.out();
    writer.Send(step, peer, own, writer.Whole(), available);
    const ExchangePlace into = (unfold - 1 - step) % 2 == 0 ? kResultPlace : spare;
    const int64_t overwritten = into == kResultPlace ? from_result : from_spare;
    writer.Add(step, peer, own, into, writer.Whole(), step + 1 == unfold,
               [&](int64_t c) { return overwritten < 0 ? 0 : overwritten + c + 1; });
    own = into;
    before = here;
  }
  if (fold.takes_over) writer.Send(unfold, shape.rank - 1, own, writer.Whole(), available);
  return writer.Take();
}

}  // namespace distill
