// What the plans of exchange.h are written with. Internal to comm/.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "libdistill/comm/exchange.h"

namespace distill {

// For algorithms that pair ranks by the bits of their numbers. Of n ranks, p (a power of two) take part in the middle;
// the first 2 (n - p) ranks form pairs, of which the even one hands its data to the odd one before, and gets the result
// after. The parts keep the order of the ranks.
struct ExchangeFold {
  explicit ExchangeFold(const ExchangeShape& shape);
  int RankOf(int other_part) const { return other_part < surplus ? 2 * other_part + 1 : other_part + surplus; }
  int parts = 1;  // p
  int surplus = 0;
  bool hands_over = false;
  bool takes_over = false;
  int part = 0;  // this rank's number among the parts
};

struct ElementRange {
  int64_t begin = 0, end = 0;
  int64_t length() const { return end - begin; }
};

// Elements 0 ... of a rank's data lie at `at` of a buffer.
struct ExchangePlace {
  ExchangeBuffer buffer = ExchangeBuffer::kInput;
  int64_t at = 0;
  bool operator==(const ExchangePlace&) const = default;
};
constexpr ExchangePlace kInputPlace = {ExchangeBuffer::kInput, 0};
constexpr ExchangePlace kResultPlace = {ExchangeBuffer::kResult, 0};

// Writes a plan step by step; a step's messages are cut from one range of elements, each `chunk` long but the last.
class ExchangeWriter {
 public:
  using Bound = absl::FunctionRef<int64_t(int64_t)>;

  explicit ExchangeWriter(const ExchangeShape& shape) : shape_(shape) {}

  ElementRange Whole() const { return {0, shape_.count}; }
  int64_t Chunks(int64_t length) const { return (length + shape_.chunk - 1) / shape_.chunk; }

  // `available(end)`: how many incoming messages must be in before the elements up to `end` may go.
  void Send(int step, int peer, ExchangePlace from, ElementRange range, Bound available);
  // What comes is the result, and overwrites it: message c not before `left(c)` messages have gone.
  void Store(int step, int peer, ElementRange range, Bound left);
  // What comes is added to `own`, the lower rank's data first, and the sum goes to `into`: message c not before
  // `left(c)` have gone. `last`: nothing else is added to these elements.
  void Add(int step, int peer, ExchangePlace own, ExchangePlace into, ElementRange range, bool last, Bound left);
  // Memory for all elements behind what lands; none where that is longer than what lands.
  ExchangePlace Spare();

  // So many messages there are by now.
  int64_t in() const { return static_cast<int64_t>(plan_.incoming.size()); }
  int64_t out() const { return static_cast<int64_t>(plan_.outgoing.size()); }
  ExchangePlan Take() { return std::move(plan_); }

 private:
  uint32_t Number(int step, int64_t c) const { return static_cast<uint32_t>(step * Chunks(shape_.count) + c); }
  ElementRange Piece(ElementRange range, int64_t c) const;
  const ExchangeShape shape_;
  ExchangePlan plan_;
};

// All that a rank which hands its data over does: it sends them to the rank above, and takes the result in step
// `unfold`.
ExchangePlan PlanHandOver(const ExchangeShape& shape, int unfold);
// The first step of the others: adds what is handed over, if anything is. Where this rank's data are after that.
ExchangePlace TakeOver(const ExchangeFold& fold, const ExchangeShape& shape, ExchangeWriter& writer);

}  // namespace distill
