// Which gradients travel together, in buckets, and which elements of a bucket each rank owns: pure functions of the
// parameters' sizes, their order and the size of a bucket, so that all ranks have the same plan.
//
// Where optimizer state, gradients and parameters are sharded (ZeRO: Rajbhandari et al. 2020, "ZeRO: Memory
// Optimizations Toward Training Trillion Parameter Models") a bucket is cut into one slice a rank, all of the same
// length, as reduce-scatter and all-gather want them; cuts pay no heed to where parameters begin. The last slices may
// reach beyond the bucket's end, or lie there altogether.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libdistill/gradients/parameters.h"

namespace distill {

// Each bucket's parameters by their index, in the order in which their gradients lie in it. Buckets leave in order.
using BucketMembers = std::vector<std::vector<size_t>>;

// The last parameter first: about the order in which a backward pass ends up with their gradients.
std::vector<size_t> ReverseOrder(size_t parameters);

// Cuts the parameters, in `order`, into buckets of nearly the same size, `bucket_bytes` or a little less: a cut is
// where the sizes so far come nearest to a multiple of an even share. A parameter is never cut, so one that is larger
// than a bucket makes a larger bucket. The first bucket has about 1 MiB, if that is less, so that communication starts
// early. `elements`: of each parameter, float32 on the way.
//
// `groups`: of each parameter; a bucket holds parameters of one group alone. Those of a group stand together in
// `order`, or make several runs of buckets. Empty: all are of one.
BucketMembers PlanBuckets(const std::vector<int64_t>& elements, const std::vector<size_t>& order, int64_t bucket_bytes,
                          const std::vector<int64_t>& groups = {});

constexpr int64_t RoundUp(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

class ShardPlan {
 public:
  struct Part {
    int64_t begin = 0;
    int64_t count = 0;
  };

  // `elements`: of each parameter. With one shard its rank owns everything.
  ShardPlan(const std::vector<int64_t>& elements, BucketMembers buckets, int shards);

  int shards() const { return shards_; }
  const BucketMembers& members() const { return members_; }
  size_t num_buckets() const { return members_.size(); }
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
  BucketMembers members_;
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;
};

// The plan of a reducer in stage 0: in this order of parameters, or, where that is empty, in reverse.
ShardPlan PlanInOrder(const std::vector<TrainedParameter>& parameters, const std::vector<int64_t>& order,
                      int64_t bucket_bytes);
// The plan of a reducer from stage 1 on.
ShardPlan ShardedPlan(const std::vector<TrainedParameter>& parameters, int shards, int64_t bucket_bytes,
                      const std::vector<int64_t>& groups = {});

// What must be the same on every rank: name, shape and type of each parameter, and what each bucket holds.
std::vector<std::pair<std::string, std::string>> FingerprintOf(const ShardPlan& plan,
                                                               const std::vector<TrainedParameter>& parameters);

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
