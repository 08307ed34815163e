#include "libdistill/data/epoch_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "libdistill/core/random.h"
#include "libdistill/data/mixture.h"

namespace distill {
namespace {

// Several sources have an order each, so that their lists are shorter.
constexpr int64_t kMostListedOfSource = int64_t{1} << 20;

// Of a streamed source, a block has at most this part of a window.
constexpr int64_t kBlocksInWindow = 4;

SampleOrder OrderOf(int64_t size, int64_t window, bool shuffle, uint64_t seed, int64_t epoch, int64_t most_listed) {
  if (!shuffle) return SampleOrder::InOrder(size);
  return window > 0 ? SampleOrder::ShuffledInWindows(size, window, seed, epoch)
                    : SampleOrder::Shuffled(size, seed, epoch, most_listed);
}

int64_t WindowOf(const Mixture& mixture, size_t source) {
  return mixture.windows.empty() ? 0 : mixture.windows[source];
}

// 0: no source is streamed.
int64_t BlocksOf(const Mixture& mixture) {
  int64_t blocks = 0;
  for (size_t i = 0; i < mixture.sizes.size(); ++i) {
    const int64_t window = WindowOf(mixture, i);
    if (window > 0) blocks = std::max(blocks, (kBlocksInWindow * mixture.taken[i] + window - 1) / window);
  }
  return blocks;
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
    : seed_(seed), epoch_(epoch) {
  const Mixture* const mixture = dataset.mixture();
  if (shuffle && mixture != nullptr) blocks_ = BlocksOf(*mixture);
  const bool is_one = mixture == nullptr;
  order_ = OrderOf(SizeOf(dataset), is_one ? dataset.window() : 0, shuffle && blocks_ == 0, seed, epoch,
                   SampleOrder::kMostListed);
  if (is_one) return;
  int64_t end = 0, first_id = 0;
  for (size_t i = 0; i < mixture->sizes.size(); ++i) {
    const int64_t size = mixture->sizes[i], taken = mixture->taken[i], passes = (taken + size - 1) / size;
    Part part{.end = end += taken, .first_id = std::exchange(first_id, first_id + size), .taken = taken};
    for (int64_t pass = 0; pass < passes; ++pass) {
      part.passes.push_back(
          OrderOf(size, WindowOf(*mixture, i), shuffle, SeedOf(seed, i), epoch * passes + pass, kMostListedOfSource));
    }
    parts_.push_back(std::move(part));
  }
}

int64_t EpochOrder::Part::Id(int64_t own) const {
  const int64_t size = passes.front().size();
  return first_id + passes[static_cast<size_t>(own / size)][own % size];
}

// The first `block` of all blocks have so many of the part's places.
int64_t EpochOrder::ShareBegin(const Part& part, int64_t block) const {
  return static_cast<int64_t>(static_cast<__int128>(part.taken) * block / blocks_);
}

int64_t EpochOrder::BlockBegin(int64_t block) const {
  int64_t begin = 0;
  for (const Part& part : parts_) begin += ShareBegin(part, block);
  return begin;
}

int64_t EpochOrder::InBlock(int64_t place) const {
  int64_t block = 0;  // the last one that begins at the place or before
  for (int64_t end = blocks_; end - block > 1;) {
    const int64_t middle = block + (end - block) / 2;
    if (BlockBegin(middle) <= place) {
      block = middle;
    } else {
      end = middle;
    }
  }
  const int64_t begin = BlockBegin(block), size = BlockBegin(block + 1) - begin;
  const uint64_t seed = Random(seed_, static_cast<uint64_t>(block)).Next();
  int64_t own = SampleOrder::Shuffled(size, seed, epoch_, /*most_listed=*/0)[place - begin];
  auto part = parts_.begin();
  for (;; ++part) {
    const int64_t share = ShareBegin(*part, block + 1) - ShareBegin(*part, block);
    if (own < share) break;
    own -= share;
  }
  return part->Id(ShareBegin(*part, block) + own);
}

int64_t EpochOrder::operator[](int64_t place) const {
  if (blocks_ > 0) return InBlock(place);
  const int64_t number = order_[place];
  if (parts_.empty()) return number;
  const auto part = std::upper_bound(parts_.begin(), parts_.end(), number,
                                     [](int64_t wanted, const Part& one) { return wanted < one.end; });
  return part->Id(part == parts_.begin() ? number : number - std::prev(part)->end);
}

}  // namespace distill
