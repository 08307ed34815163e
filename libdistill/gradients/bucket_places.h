// Where buckets lie in the memory that they share.
#pragma once

#include <cstdint>
#include <vector>

#include "libdistill/gradients/shard_plan.h"

namespace distill {

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
