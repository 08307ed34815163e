#include "libdistill/comm/exchange_writer.h"

#include <algorithm>

namespace distill {

ExchangeFold::ExchangeFold(const ExchangeShape& shape) {
  while (2 * parts <= shape.ranks) parts *= 2;
  surplus = shape.ranks - parts;
  const bool paired = shape.rank < 2 * surplus;
  hands_over = paired && shape.rank % 2 == 0;
  takes_over = paired && shape.rank % 2 == 1;
  part = paired ? shape.rank / 2 : shape.rank - surplus;
}

ElementRange ExchangeWriter::Piece(ElementRange range, int64_t c) const {
  const int64_t begin = range.begin + c * shape_.chunk;
  return {begin, std::min(begin + shape_.chunk, range.end)};
}

void ExchangeWriter::Send(int step, int peer, ExchangePlace from, ElementRange range, Bound available) {
  for (int64_t c = 0; c < Chunks(range.length()); ++c) {
    const ElementRange piece = Piece(range, c);
    plan_.outgoing.push_back(
        {peer, Number(step, c), from.buffer, from.at + piece.begin, piece.length(), available(piece.end), 0});
  }
}

void ExchangeWriter::Store(int step, int peer, ElementRange range, Bound left) {
  for (int64_t c = 0; c < Chunks(range.length()); ++c) {
    const ElementRange piece = Piece(range, c);
    plan_.incoming.push_back({peer, Number(step, c), ExchangeBuffer::kResult, piece.begin, piece.length(), 0, left(c)});
  }
}

void ExchangeWriter::Add(int step, int peer, ExchangePlace own, ExchangePlace into, ElementRange range, bool last,
                         Bound left) {
  for (int64_t c = 0; c < Chunks(range.length()); ++c) {
    const ElementRange piece = Piece(range, c);
    const int64_t index = in();
    // The message that lay here before is taken in by then: there are no more than `window` at a time.
    const int64_t landing = index % plan_.window * std::min(shape_.chunk, shape_.count);
    plan_.landing = std::max(plan_.landing, landing + piece.length());
    plan_.incoming.push_back({peer, Number(step, c), ExchangeBuffer::kLanding, landing, piece.length(), 0, 0});
    plan_.reductions.push_back({.incoming = index,
                                .after_outgoing = left(c),
                                .own = own.buffer,
                                .own_first = own.at + piece.begin,
                                .result_first = into.at + piece.begin,
                                .count = piece.length(),
                                .landing_first = landing,
                                .own_place = peer < shape_.rank ? 1 : 0,
                                .last = last,
                                .into = into.buffer});
  }
}

ExchangePlace ExchangeWriter::Spare() {
  const int64_t lands = plan_.window * std::min(shape_.chunk, shape_.count);
  if (shape_.count > lands) return kResultPlace;
  plan_.landing = lands + shape_.count;
  return {ExchangeBuffer::kLanding, lands};
}

ExchangePlan PlanHandOver(const ExchangeShape& shape, int unfold) {
  ExchangeWriter writer(shape);
  writer.Send(0, shape.rank + 1, kInputPlace, writer.Whole(), [](int64_t) -> int64_t { return 0; });
  writer.Store(unfold, shape.rank + 1, writer.Whole(), [&](int64_t c) { return shape.in_place ? c + 1 : 0; });
  return writer.Take();
}

ExchangePlace TakeOver(const ExchangeFold& fold, const ExchangeShape& shape, ExchangeWriter& writer) {
  if (!fold.takes_over) return kInputPlace;
  const auto at_once = [](int64_t) -> int64_t { return 0; };
  writer.Add(0, shape.rank - 1, kInputPlace, kResultPlace, writer.Whole(), false, at_once);
  return kResultPlace;
}

}  // namespace distill
