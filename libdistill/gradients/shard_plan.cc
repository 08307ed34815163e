#include "libdistill/gradients/shard_plan.h"

#include <algorithm>

namespace distill {
namespace {

// Slices begin at cache lines.
constexpr int64_t kSliceAlignment = 64 / sizeof(float);
// And parameters, also those of two bytes: matrix products of GPUs are slow on others.
constexpr int64_t kParameterAlignment = 64 / 2;
// Buckets begin at pages.
constexpr int64_t kAlignment = 4096 / sizeof(float);
constexpr size_t kPlaces = 4;

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

int64_t RoomForAnyPlan(const std::vector<int64_t>& elements, int shards) {
  // A bucket has at least one parameter; its slices add less than a page a shard.
  int64_t room = 0;
  for (const int64_t count : elements)
    room += RoundUp(count, kAlignment) + (shards > 1 ? RoundUp(16 * shards, kAlignment) : 0);
  return std::max(room, kAlignment);
}

BucketPlaces PlacesInARow(const ShardPlan& plan, const std::vector<bool>& left_out) {
  BucketPlaces places;
  for (size_t b = 0; b < plan.plan().buckets.size(); ++b) {
    const bool has_place = left_out.empty() || !left_out[b];
    places.begin.push_back(has_place ? places.elements : kNoPlace);
    places.before.push_back(-1);
    if (has_place) places.elements += RoundUp(plan.padded(b), kAlignment);
  }
  return places;
}

BucketPlaces PlacesInSlots(const ShardPlan& plan) {
  const size_t buckets = plan.plan().buckets.size();
  std::vector<int64_t> sizes;
  for (size_t b = 0; b < buckets; ++b) sizes.push_back(RoundUp(plan.padded(b), kAlignment));
  std::vector<int64_t> sorted = sizes;
  std::sort(sorted.begin(), sorted.end());
  const int64_t usual = 2 * sorted[(buckets - 1) / 2];

  int64_t place_size = 0;
  size_t usual_buckets = 0;
  for (const int64_t size : sizes) {
    if (size > usual) continue;
    place_size = std::max(place_size, size);
    ++usual_buckets;
  }
  const size_t num_places = std::min(usual_buckets, kPlaces);

  BucketPlaces places;
  std::vector<int64_t> last(num_places, -1);  // the bucket in each place
  size_t next = 0;
  for (size_t b = 0; b < buckets; ++b) {
    if (sizes[b] > usual) {
      places.begin.push_back(kNoPlace);
      places.before.push_back(-1);
      continue;
    }
    const size_t place = next++ % num_places;
    places.begin.push_back(static_cast<int64_t>(place) * place_size);
    places.before.push_back(last[place]);
    last[place] = static_cast<int64_t>(b);
  }
  places.elements = static_cast<int64_t>(num_places) * place_size;
  return places;
}

}  // namespace distill
