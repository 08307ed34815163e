// Orders of samples: each sample once, the same for the same seed, and like chance where no list is kept.
#include "libdistill/data/sample_order.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "tests/support/catch.h"

namespace distill {
namespace {

std::vector<int64_t> All(const SampleOrder& order) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < order.size(); ++i) all.push_back(order[i]);
  return all;
}

SampleOrder WithoutList(int64_t size, uint64_t seed = 1, int64_t epoch = 0) {
  return SampleOrder::Shuffled(size, seed, epoch, /*most_listed=*/0);
}

TEST_CASE("every sample comes once, whatever the size") {
  for (int64_t size = 1; size < 300; ++size) {
    for (const int64_t most_listed : {int64_t{0}, SampleOrder::kMostListed}) {
      std::vector<int64_t> all = All(SampleOrder::Shuffled(size, 3, 1, most_listed));
      std::sort(all.begin(), all.end());
      CHECK(all == All(SampleOrder::InOrder(size)));
    }
  }
  for (const int64_t size : {int64_t{65535}, int64_t{65536}, int64_t{65537}, int64_t{300007}}) {
    std::vector<int64_t> all = All(WithoutList(size));
    std::sort(all.begin(), all.end());
    CHECK(all == All(SampleOrder::InOrder(size)));
  }
}

TEST_CASE("the order is that of size, seed and epoch") {
  for (const int64_t most_listed : {int64_t{0}, SampleOrder::kMostListed}) {
    const auto shuffled = [&](uint64_t seed, int64_t epoch) {
      return All(SampleOrder::Shuffled(1000, seed, epoch, most_listed));
    };
    CHECK(shuffled(1, 2) == shuffled(1, 2));
    CHECK(shuffled(1, 2) != shuffled(1, 3));
    CHECK(shuffled(1, 2) != shuffled(2, 2));
  }
  // They are part of saved positions, so they must stay what they are.
  CHECK(All(SampleOrder::Shuffled(8, 42, 0)) == std::vector<int64_t>{0, 6, 1, 7, 2, 3, 5, 4});
  CHECK(All(WithoutList(8, 42)) == std::vector<int64_t>{4, 7, 5, 2, 3, 6, 0, 1});
}

// Pearson's chi-squared of counts that should all be `expected`, in standard deviations from its mean.
double Surprise(const std::vector<int64_t>& counts, double expected) {
  double sum = 0;
  for (const int64_t count : counts) sum += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>(counts.size()) - 1;
  return (sum - freedom) / std::sqrt(2 * freedom);
}

TEST_CASE("without a list, each place gets each sample equally often over seeds and epochs") {
  constexpr int64_t kSize = 50, kOrders = 20000;
  std::vector<int64_t> counts(kSize * kSize);
  for (int64_t i = 0; i < kOrders; ++i) {
    const SampleOrder order = WithoutList(kSize, static_cast<uint64_t>(i / 100), i % 100);
    for (int64_t place = 0; place < kSize; ++place) ++counts[place * kSize + order[place]];
  }
  CHECK(std::abs(Surprise(counts, static_cast<double>(kOrders) / kSize)) < 5);
}

TEST_CASE("without a list, samples are spread as by chance, and neighbours are strangers") {
  constexpr int64_t kSize = 1000003, kParts = 100;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const SampleOrder order = WithoutList(kSize, 7, epoch);
    std::vector<int64_t> parts(kParts * kParts), steps(kParts);
    int64_t adjacent = 0;
    for (int64_t place = 0; place + 1 < kSize; ++place) {
      const int64_t sample = order[place], next = order[place + 1];
      ++parts[place * kParts / kSize * kParts + sample * kParts / kSize];  // where in the order, where in the data
      ++steps[(next - sample + kSize) % kSize * kParts / kSize];
      adjacent += std::abs(next - sample) == 1;
    }
    CHECK(std::abs(Surprise(parts, static_cast<double>(kSize) / (kParts * kParts))) < 5);
    CHECK(std::abs(Surprise(steps, static_cast<double>(kSize) / kParts)) < 5);
    CHECK(adjacent < 15);  // 2 are expected
  }
}

TEST_CASE("an order of a billion samples is some numbers, not a list") {
  const SampleOrder order = SampleOrder::Shuffled(1000000000, 5, 0);
  CHECK(sizeof(order) < 200);
  std::vector<int64_t> first;
  for (int64_t i = 0; i < 100000; ++i) first.push_back(order[999999999 - i]);
  CHECK(*std::min_element(first.begin(), first.end()) >= 0);
  CHECK(*std::max_element(first.begin(), first.end()) < 1000000000);
  std::sort(first.begin(), first.end());
  CHECK(std::adjacent_find(first.begin(), first.end()) == first.end());
}

}  // namespace
}  // namespace distill
