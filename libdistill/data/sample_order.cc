#include "libdistill/data/sample_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "libdistill/core/random.h"

namespace distill {

SampleOrder SampleOrder::InOrder(int64_t size) {
  SampleOrder order;
  order.size_ = size;
  return order;
}

SampleOrder SampleOrder::Shuffled(int64_t size, uint64_t seed, int64_t epoch, int64_t most_listed) {
  SampleOrder order = InOrder(size);
  Random random(seed, static_cast<uint64_t>(epoch));
  if (size <= most_listed) {
    std::vector<int64_t> listed(static_cast<size_t>(size));
    std::iota(listed.begin(), listed.end(), 0);
    for (int64_t i = size - 1; i > 0; --i) std::swap(listed[i], listed[random.Below(i + 1)]);  // Fisher-Yates
    order.listed_ = std::make_shared<const std::vector<int64_t>>(std::move(listed));
    return order;
  }
  order.half_bits_ = 1;  // both halves together hold every sample's number
  while ((int64_t{1} << 2 * order.half_bits_) < size) ++order.half_bits_;
  for (uint64_t& key : order.keys_) key = random.Next();
  return order;
}

SampleOrder SampleOrder::ShuffledInWindows(int64_t size, int64_t window, uint64_t seed, int64_t epoch) {
  if (window >= size) return Shuffled(size, seed, epoch);
  SampleOrder order = InOrder(size);
  order.window_ = window;
  order.first_ = 1 + static_cast<int64_t>(Random(seed, static_cast<uint64_t>(epoch)).Below(window));
  order.seed_ = seed;
  order.epoch_ = epoch;
  return order;
}

int64_t SampleOrder::InWindow(int64_t place) const {
  const int64_t number = (place - first_ + window_) / window_;
  const int64_t begin = number == 0 ? 0 : first_ + (number - 1) * window_;
  const int64_t end = std::min(size_, first_ + number * window_);
  const uint64_t seed = Random(seed_, static_cast<uint64_t>(number)).Next();
  return begin + Shuffled(end - begin, seed, epoch_, /*most_listed=*/0)[place - begin];
}

int64_t SampleOrder::operator[](int64_t place) const {
  if (window_ > 0) return InWindow(place);
  if (listed_ != nullptr) return (*listed_)[static_cast<size_t>(place)];
  if (half_bits_ == 0) return place;
  auto number = static_cast<uint64_t>(place);
  do {  // ends: the walk along a cycle comes back to `place` at the latest; four steps at most on average
    number = Permute(number);
  } while (number >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(number);
}

uint64_t SampleOrder::Permute(uint64_t number) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = number >> half_bits_, right = number & mask;
  for (const uint64_t key : keys_) {
    // The upper bits of the generator's first number are mixed best.
    const uint64_t mixed = Random(key + right * 0x9e3779b97f4a7c15u).Next() >> (64 - half_bits_);
    left = std::exchange(right, left ^ mixed);
  }
  return left << half_bits_ | right;
}

}  // namespace distill
