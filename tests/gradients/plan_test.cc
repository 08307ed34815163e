// Which gradients travel together, and the sum of squares of what arrived.

#include <cmath>
#include <numeric>

#include "libdistill/core/random.h"
#include "libdistill/gradients/gradient_blocks.h"
#include "libdistill/gradients/gradient_plan.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

constexpr int64_t kMiB = 1 << 20;

std::vector<double> BucketMiB(const std::vector<int64_t>& elements, const BucketMembers& buckets) {
  std::vector<double> sizes;
  for (const auto& bucket : buckets) {
    int64_t sum = 0;
    for (const size_t i : bucket) sum += elements[i];
    sizes.push_back(static_cast<double>(sum) * 4 / kMiB);
  }
  return sizes;
}

TEST_CASE("every parameter is in one bucket, in the order that was asked for") {
  Random random(3, 0);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> elements;
    for (uint64_t n = 1 + random.Below(40); n > 0; --n)
      elements.push_back(static_cast<int64_t>(random.Below(3 * kMiB)));
    std::vector<size_t> order = ReverseOrder(elements.size());
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
    std::vector<size_t> found;
    for (const auto& bucket : PlanBuckets(elements, order, 1 + static_cast<int64_t>(random.Below(20 * kMiB)))) {
      CHECK_FALSE(bucket.empty());
      found.insert(found.end(), bucket.begin(), bucket.end());
    }
    CHECK(found == order);
  }
}

TEST_CASE("buckets are of nearly the same size, but for a small first one and parameters that are larger") {
  const std::vector<int64_t> even(100, kMiB / 4);  // 1 MiB each
  const auto sizes = BucketMiB(even, PlanBuckets(even, ReverseOrder(100), 25 * kMiB));
  CHECK(sizes == std::vector<double>{1, 25, 25, 24, 25});

  // As DistilBERT: the embedding comes last, six layers of matrices of 2.25 and 9 MiB before it.
  std::vector<int64_t> model = {30522 * 768, 512 * 768};
  for (int layer = 0; layer < 6; ++layer) {
    for (const int64_t size : {768, 768 * 768, 768 * 768, 768 * 768, 768 * 768, 4 * 768 * 768, 4 * 768 * 768}) {
      model.push_back(size);
    }
  }
  const auto buckets = BucketMiB(model, PlanBuckets(model, ReverseOrder(model.size()), 25 * kMiB));
  CHECK(buckets.size() == 9);
  CHECK(buckets.front() == 9);
  for (size_t b = 1; b + 1 < buckets.size(); ++b) CHECK(buckets[b] < 28);
  CHECK(buckets.back() < 100);
}

TEST_CASE("a bucket of a byte holds one parameter, and a large one all") {
  const std::vector<int64_t> elements = {3, 0, 7, 1};
  const std::vector<std::vector<size_t>> all = {std::vector<size_t>{3, 2, 1, 0}};
  CHECK(PlanBuckets(elements, ReverseOrder(4), kMiB) == all);
  CHECK(PlanBuckets({3, 5, 7, 1}, ReverseOrder(4), 1) == std::vector<std::vector<size_t>>{{3}, {2}, {1}, {0}});
}

TEST_CASE("the sum of squares is that of float64 arithmetic, for any count") {
  Random random(5, 0);
  for (const int64_t count : {0, 1, 15, 16, 17, 1000, 100003}) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(random.Uniform() * 2 - 1);
    double expected = 0;
    for (const float value : values) expected += static_cast<double>(value) * value;
    CHECK(SumOfSquares(values.data(), count) == Approx(expected).epsilon(1e-13));
  }
  const std::vector<float> whole(1000, 3.0f);
  CHECK(SumOfSquares(whole.data(), 1000) == 9000.0);
}

}  // namespace
}  // namespace distill
