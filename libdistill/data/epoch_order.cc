#include "libdistill/data/epoch_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "libdistill/data/mixture.h"

namespace distill {
namespace {

// Several sources have an order each, so that their lists are shorter.
constexpr int64_t kMostListedOfSource = int64_t{1} << 20;

SampleOrder OrderOf(int64_t size, bool shuffle, uint64_t seed, int64_t epoch, int64_t most_listed) {
  return shuffle ? SampleOrder::Shuffled(size, seed, epoch, most_listed) : SampleOrder::InOrder(size);
}

// Another seed for each source, unrelated to that of the whole.
uint64_t SeedOf(uint64_t seed, size_t source) { return seed ^ (0xa0761d6478bd642fu * (source + 1)); }

}  // namespace

int64_t EpochOrder::SizeOf(const Dataset& dataset) {
  const Mixture* const mixture = dataset.mixture();
  if (mixture == nullptr) return dataset.size();
  return std::accumulate(mixture->taken.begin(), mixture->taken.end(), int64_t{0});
}

EpochOrder::EpochOrder(const Dataset& dataset, bool shuffle, uint64_t seed, int64_t epoch)
    : order_(OrderOf(SizeOf(dataset), shuffle, seed, epoch, SampleOrder::kMostListed)) {
  const Mixture* const mixture = dataset.mixture();
  if (mixture == nullptr) return;
  int64_t end = 0, first_id = 0;
  for (size_t i = 0; i < mixture->sizes.size(); ++i) {
    const int64_t size = mixture->sizes[i], taken = mixture->taken[i], passes = (taken + size - 1) / size;
    Part part{.end = end += taken, .first_id = std::exchange(first_id, first_id + size)};
    for (int64_t pass = 0; pass < passes; ++pass) {
      part.passes.push_back(OrderOf(size, shuffle, SeedOf(seed, i), epoch * passes + pass, kMostListedOfSource));
    }
    parts_.push_back(std::move(part));
  }
}

int64_t EpochOrder::operator[](int64_t place) const {
  const int64_t number = order_[place];
  if (parts_.empty()) return number;
  const auto part = std::upper_bound(parts_.begin(), parts_.end(), number,
                                     [](int64_t wanted, const Part& one) { return wanted < one.end; });
  const int64_t own = part == parts_.begin() ? number : number - std::prev(part)->end;
  const int64_t size = part->passes.front().size();
  return part->first_id + part->passes[static_cast<size_t>(own / size)][own % size];
}

}  // namespace distill
