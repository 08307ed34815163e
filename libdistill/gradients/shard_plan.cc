#include "libdistill/gradients/shard_plan.h"

#include <algorithm>

namespace distill {
namespace {

// Slices begin at cache lines.
constexpr int64_t kSliceAlignment = 64 / sizeof(float);
// And parameters, also those of two bytes: matrix products of GPUs are slow on others.
constexpr int64_t kParameterAlignment = 64 / 2;

ShardPlan::Part Intersect(int64_t begin, int64_t end, int64_t from, int64_t to) {
  const int64_t first = std::max(begin, from), last = std::min(end, to);
  return first < last ? ShardPlan::Part{first, last - first} : ShardPlan::Part{};
}

}  // namespace

ShardPlan::ShardPlan(const std::vector<int64_t>& elements, const GradientPlan& plan, int shards)
    : shards_(shards), plan_(plan), places_(elements.size()) {
  for (const std::vector<size_t>& members : plan.buckets) {
    Bucket bucket;
    for (const size_t i : members) {
      if (shards > 1) bucket.elements = RoundUp(bucket.elements, kParameterAlignment);
      places_[i] = {buckets_.size(), bucket.elements, elements[i]};
      bucket.elements += elements[i];
    }
    const int64_t share = (bucket.elements + shards - 1) / shards;
    bucket.slice = shards == 1 ? share : RoundUp(share, kSliceAlignment);
    buckets_.push_back(bucket);
  }
}

ShardPlan::Part ShardPlan::OfBucket(size_t bucket, int shard) const {
  return Intersect(0, elements(bucket), shard * slice(bucket), (shard + 1) * slice(bucket));
}

std::vector<ShardPlan::Part> ShardPlan::Gaps(size_t bucket) const {
  std::vector<Part> gaps;
  int64_t end = 0;
  for (const size_t i : plan_.buckets[bucket]) {
    if (offset(i) > end) gaps.push_back({end, offset(i) - end});
    end = offset(i) + places_[i].elements;
  }
  return gaps;
}

ShardPlan::Part ShardPlan::OfParameter(size_t parameter, int shard) const {
  const Place& place = places_[parameter];
  const int64_t step = slice(place.bucket);
  Part part = Intersect(place.offset, place.offset + place.elements, shard * step, (shard + 1) * step);
  if (part.count > 0) part.begin -= place.offset;
  return part;
}

}  // namespace distill
