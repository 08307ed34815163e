#include "libdistill/gradients/gradient_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libdistill/tensor/convert.h"

namespace distill {
namespace {

constexpr double kFirstBucketBytes = 1 << 20;
// Slices begin at cache lines.
constexpr int64_t kSliceAlignment = 64 / sizeof(float);
// And parameters, also those of two bytes: matrix products of GPUs are slow on others.
constexpr int64_t kParameterAlignment = 64 / 2;
// Buckets begin at pages.
constexpr int64_t kAlignment = 4096 / sizeof(float);
constexpr size_t kPlaces = 4;

// Appends the buckets of parameters of one group.
void CutAtShares(const std::vector<int64_t>& elements, const std::vector<size_t>& order, double bucket_bytes,
                 double first_bucket_bytes, BucketMembers& buckets) {
  const auto bytes_of = [&](size_t i) { return static_cast<double>(elements[i]) * sizeof(float); };
  const size_t first = buckets.size();
  double left = 0;  // that no bucket has yet
  for (const size_t i : order) left += bytes_of(i);
  double cut = std::min(first_bucket_bytes, bucket_bytes);  // where the next bucket is to end
  double share = 0, begin = 0, sum = 0;
  std::vector<size_t> bucket;
  for (const size_t i : order) {
    if (!bucket.empty() && std::abs(sum - cut) < std::abs(sum + bytes_of(i) - cut)) {
      buckets.push_back(std::exchange(bucket, {}));
      if (buckets.size() == first + 1) {
        share = left / std::ceil(left / bucket_bytes);
        begin = sum;
      }
      cut = begin + std::ceil((sum - begin) / share + 0.5) * share;  // at least half a share further on
    }
    bucket.push_back(i);
    sum += bytes_of(i);
    left -= bytes_of(i);
  }
  if (!bucket.empty()) buckets.push_back(std::move(bucket));
}

ShardPlan::Part Intersect(int64_t begin, int64_t end, int64_t from, int64_t to) {
  const int64_t first = std::max(begin, from), last = std::min(end, to);
  return first < last ? ShardPlan::Part{first, last - first} : ShardPlan::Part{};
}

}  // namespace

std::vector<size_t> ReverseOrder(size_t parameters) {
  std::vector<size_t> order(parameters);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

BucketMembers PlanBuckets(const std::vector<int64_t>& elements, const std::vector<size_t>& order, int64_t bucket_bytes,
                          const std::vector<int64_t>& groups) {
  const auto usual = static_cast<double>(bucket_bytes);
  const auto differ = [&](size_t a, size_t b) { return !groups.empty() && groups[a] != groups[b]; };
  BucketMembers buckets;
  for (auto begin = order.begin(), end = begin; begin != order.end(); begin = end) {
    end = std::find_if(begin, order.end(), [&](size_t i) { return differ(*begin, i); });
    CutAtShares(elements, {begin, end}, usual, begin == order.begin() ? kFirstBucketBytes : usual, buckets);
  }
  return buckets;
}

ShardPlan::ShardPlan(const std::vector<int64_t>& elements, BucketMembers buckets, int shards)
    : shards_(shards), members_(std::move(buckets)), places_(elements.size()) {
  for (const std::vector<size_t>& members : members_) {
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
  for (const size_t i : members_[bucket]) {
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

ShardPlan PlanInOrder(const std::vector<TrainedParameter>& parameters, const std::vector<int64_t>& order,
                      int64_t bucket_bytes) {
  const std::vector<int64_t> elements = ElementsOf(parameters);
  std::vector<size_t> by_index(order.begin(), order.end());
  if (order.empty()) by_index = ReverseOrder(elements.size());
  return ShardPlan(elements, PlanBuckets(elements, by_index, bucket_bytes), /*shards=*/1);
}

ShardPlan ShardedPlan(const std::vector<TrainedParameter>& parameters, int shards, int64_t bucket_bytes,
                      const std::vector<int64_t>& groups) {
  const std::vector<int64_t> elements = ElementsOf(parameters);
  return ShardPlan(elements, PlanBuckets(elements, ReverseOrder(elements.size()), bucket_bytes, groups), shards);
}

std::vector<std::pair<std::string, std::string>> FingerprintOf(const ShardPlan& plan,
                                                               const std::vector<TrainedParameter>& parameters) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const TrainedParameter& parameter : parameters) {
    fields.emplace_back(
        absl::StrCat("parameter ", parameter.name),
        absl::StrCat(ShapeToString(parameter.tensor.sizes()), " ", c10::toString(parameter.tensor.scalar_type())));
  }
  for (size_t b = 0; b < plan.num_buckets(); ++b) {
    const auto append_name = [&](std::string* out, size_t i) { out->append(parameters[i].name); };
    fields.emplace_back(absl::StrCat("gradient bucket ", b), absl::StrJoin(plan.members()[b], ", ", append_name));
  }
  return fields;
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
  places.before.assign(plan.num_buckets(), -1);
  for (size_t b = 0; b < plan.num_buckets(); ++b) {
    const bool has_place = left_out.empty() || !left_out[b];
    places.begin.push_back(has_place ? places.elements : kNoPlace);
    if (has_place) places.elements += RoundUp(plan.padded(b), kAlignment);
  }
  return places;
}

BucketPlaces PlacesInSlots(const ShardPlan& plan) {
  const size_t buckets = plan.num_buckets();
  std::vector<int64_t> sizes;
  for (size_t b = 0; b < buckets; ++b) sizes.push_back(RoundUp(plan.padded(b), kAlignment));
  std::vector<int64_t> sorted = sizes;
  std::sort(sorted.begin(), sorted.end());
  // Up to here buckets are of the usual size.
  const auto usual_end = std::upper_bound(sorted.begin(), sorted.end(), 2 * sorted[(buckets - 1) / 2]);
  const int64_t place_size = usual_end[-1];
  const size_t num_places = std::min(static_cast<size_t>(usual_end - sorted.begin()), kPlaces);

  BucketPlaces places{std::vector<int64_t>(buckets, kNoPlace), std::vector<int64_t>(buckets, -1),
                      static_cast<int64_t>(num_places) * place_size};
  std::vector<int64_t> last(num_places, -1);  // the bucket in each place
  size_t next = 0;
  for (size_t b = 0; b < buckets; ++b) {
    if (sizes[b] > place_size) continue;
    const size_t place = next++ % num_places;
    places.begin[b] = static_cast<int64_t>(place) * place_size;
    places.before[b] = std::exchange(last[place], static_cast<int64_t>(b));
  }
  return places;
}

}  // namespace distill
