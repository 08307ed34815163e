// Which elements of a bucket each rank owns when optimizer state, gradients and parameters are sharded (ZeRO:
// Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models").
//
// A bucket is cut into one slice a rank, all of the same length, as reduce-scatter and all-gather want them; cuts pay
// no heed to where parameters begin. The last slices may reach beyond the bucket's end, or lie there altogether.
#pragma once

#include <cstdint>
#include <vector>

#include "libdistill/gradients/gradient_plan.h"

namespace distill {

constexpr int64_t RoundUp(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

class ShardPlan {
 public:
  struct Part {
    int64_t begin = 0;
    int64_t count = 0;
  };

  // `elements`: of each parameter. With one shard its rank owns everything.
  ShardPlan(const std::vector<int64_t>& elements, const GradientPlan& plan, int shards);

  int shards() const { return shards_; }
  const GradientPlan& plan() const { return plan_; }
  int64_t elements(size_t bucket) const { return buckets_[bucket].elements; }
  // Elements of each shard's slice of a bucket; shards() of them are at least elements(bucket).
  int64_t slice(size_t bucket) const { return buckets_[bucket].slice; }
  int64_t padded(size_t bucket) const { return slice(bucket) * shards_; }
  // What a shard owns of a bucket's elements, and of a parameter's, in the parameter's own count.
  Part OfBucket(size_t bucket, int shard) const;
  Part OfParameter(size_t parameter, int shard) const;
  size_t bucket_of(size_t parameter) const { return places_[parameter].bucket; }
  // Where a parameter begins in its bucket.
  int64_t offset(size_t parameter) const { return places_[parameter].offset; }
  // What lies between a bucket's parameters where there are several shards, so that each begins at 32 elements.
  std::vector<Part> Gaps(size_t bucket) const;

 private:
  struct Bucket {
    int64_t elements = 0, slice = 0;
  };
  struct Place {
    size_t bucket = 0;
    int64_t offset = 0, elements = 0;
  };

  int shards_;
  GradientPlan plan_;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;
};

// Where buckets lie in the memory that they share.
constexpr int64_t kNoPlace = -1;

struct BucketPlaces {
  std::vector<int64_t> begin;   // of each bucket, in elements; at a page; kNoPlace: it has none
  std::vector<int64_t> before;  // of each bucket: the last bucket before it that overlaps it; -1: none
  int64_t elements = 0;         // of the memory
};

// Elements that hold any plan's buckets in a row.
int64_t RoomForAnyPlan(const std::vector<int64_t>& elements, int shards);
// One after the other; kNoPlace for those that `left_out` names (empty: none).
BucketPlaces PlacesInARow(const ShardPlan& plan, const std::vector<bool>& left_out = {});
// Four slots that buckets use in rotation. Those that are much larger than the others (embeddings) get none: one for
// them would be most of a small model's gradients.
BucketPlaces PlacesInSlots(const ShardPlan& plan);

}  // namespace distill
