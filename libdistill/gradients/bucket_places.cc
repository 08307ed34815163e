#include "libdistill/gradients/bucket_places.h"

#include <algorithm>

namespace distill {
namespace {

// Buckets begin at pages.
constexpr int64_t kAlignment = 4096 / sizeof(float);
constexpr size_t kPlaces = 4;

}  // namespace

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
