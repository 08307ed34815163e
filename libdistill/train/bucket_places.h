// Where buckets lie in the memory that they share.
#pragma once

#include <cstdint>
#include <vector>

#include "libdistill/train/shard_plan.h"

namespace distill {

struct BucketPlaces {
  std::vector<int64_t> begin;   // of each bucket, in elements; at a page
  std::vector<int64_t> before;  // of each bucket: the last bucket before it that overlaps it; -1: none
  int64_t elements = 0;         // of the memory
};

// Elements that hold any plan's buckets in a row.
int64_t RoomForAnyPlan(const std::vector<int64_t>& elements, int shards);
// One after the other.
BucketPlaces PlacesInARow(const ShardPlan& plan);
// Four places that buckets take in turn, and one more for those that are much larger than the others (embeddings), so
// that these do not make all places large.
BucketPlaces PlacesInTurn(const ShardPlan& plan);

}  // namespace distill
