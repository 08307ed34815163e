#include "libdistill/gradients/gradient_plan.h"

#include <algorithm>

#include "libdistill/core/random.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

std::vector<int64_t> RandomElements(uint64_t seed) {
  Random random(seed, 0);
  std::vector<int64_t> elements(1 + random.Below(40));
  for (int64_t& count : elements) count = static_cast<int64_t>(random.Below(random.Below(4) == 0 ? 200'000 : 300));
  return elements;
}

ShardPlan PlanOf(uint64_t seed, int shards) {
  const std::vector<int64_t> elements = RandomElements(seed);
  return ShardPlan(elements, PlanBuckets(elements, ReverseOrder(elements.size()), 100'000), shards);
}

TEST_CASE("every element of every parameter has one owner, in the order of ranks") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<int64_t> elements = RandomElements(seed);
    for (const int shards : {1, 2, 3, 8}) {
      const ShardPlan plan = PlanOf(seed, shards);
      for (size_t i = 0; i < elements.size(); ++i) {
        int64_t next = 0;
        for (int shard = 0; shard < shards; ++shard) {
          const ShardPlan::Part part = plan.OfParameter(i, shard);
          if (part.count == 0) continue;
          CHECK(part.begin == next);
          next += part.count;
          // It lies in the slice of its bucket.
          const ShardPlan::Part slice = plan.OfBucket(plan.bucket_of(i), shard);
          CHECK(plan.offset(i) + part.begin >= slice.begin);
          CHECK(plan.offset(i) + part.begin + part.count <= slice.begin + slice.count);
        }
        CHECK(next == elements[i]);
      }
    }
  }
}

TEST_CASE("parameters begin at 32 elements where there are shards, and gaps are what lies between them") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<int64_t> elements = RandomElements(seed);
    for (const int shards : {1, 2, 8}) {
      const ShardPlan plan = PlanOf(seed, shards);
      for (size_t b = 0; b < plan.num_buckets(); ++b) {
        int64_t held = 0;
        for (const size_t i : plan.members()[b]) {
          held += elements[i];
          if (shards > 1) CHECK(plan.offset(i) % 32 == 0);
        }
        for (const ShardPlan::Part& gap : plan.Gaps(b)) {
          CHECK(gap.count < 32);
          held += gap.count;
        }
        CHECK(held == plan.elements(b));
        if (shards == 1) CHECK(plan.Gaps(b).empty());
      }
    }
  }
}

TEST_CASE("slices of a bucket hold all of it, and one shard has no more than that") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (const int shards : {1, 2, 3, 8}) {
      const ShardPlan plan = PlanOf(seed, shards);
      for (size_t b = 0; b < plan.num_buckets(); ++b) {
        CHECK(plan.padded(b) >= plan.elements(b));
        CHECK(plan.padded(b) < plan.elements(b) + 16 * shards + shards);
        if (shards == 1) CHECK(plan.padded(b) == plan.elements(b));
      }
    }
  }
}

// Whether two buckets may be in use at once: not where a chain of `before` joins them.
bool Follows(const BucketPlaces& places, int64_t later, int64_t earlier) {
  for (int64_t b = places.before[static_cast<size_t>(later)]; b >= 0; b = places.before[static_cast<size_t>(b)]) {
    if (b == earlier) return true;
  }
  return false;
}

TEST_CASE("buckets that overlap follow one another, and none leaves the memory") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const ShardPlan plan = PlanOf(seed, 3);
    const std::vector<int64_t> elements = RandomElements(seed);
    for (const BucketPlaces& places : {PlacesInARow(plan), PlacesInSlots(plan)}) {
      const auto end = [&](size_t b) { return places.begin[b] + plan.padded(b); };
      for (size_t b = 0; b < places.begin.size(); ++b) {
        if (places.begin[b] == kNoPlace) continue;
        CHECK(places.begin[b] % 1024 == 0);
        CHECK(end(b) <= places.elements);
        for (size_t a = 0; a < b; ++a) {
          if (places.begin[a] == kNoPlace) continue;
          const bool overlap = places.begin[a] < end(b) && places.begin[b] < end(a);
          if (overlap) CHECK(Follows(places, static_cast<int64_t>(b), static_cast<int64_t>(a)));
        }
      }
    }
    CHECK(PlacesInARow(plan).elements <= RoomForAnyPlan(elements, 3));
  }
}

TEST_CASE("in slots, a model's buckets take the room of four, and its embedding none") {
  std::vector<int64_t> elements(40, 250'000);
  elements[0] = 30'000'000;
  const ShardPlan plan(elements, PlanBuckets(elements, ReverseOrder(40), 1'000'000), 2);
  const BucketPlaces places = PlacesInSlots(plan);
  CHECK(places.elements <= 4 * 1'100'000);
  CHECK(std::count(places.begin.begin(), places.begin.end(), kNoPlace) == 1);
  CHECK(places.begin[plan.bucket_of(0)] == kNoPlace);
}

}  // namespace
}  // namespace distill
