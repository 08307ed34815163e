// Memory that every rank of a host has mapped: what Allocate made, found again by address.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "libdistill/comm/memory.h"
#include "libdistill/transport/shared_memory.h"

namespace distill {

// A place in a region; the same place exists in every rank's segment of it.
struct ShmPlace {
  int32_t region = -1;  // counts the calls of Allocate; -1: plain memory
  int64_t offset_bytes = 0;
  bool registered() const { return region >= 0; }
  bool operator==(const ShmPlace& other) const = default;
};

// Any thread may free memory while another is in a call that uses other memory.
class ShmRegions {
 public:
  explicit ShmRegions(int rank) : rank_(rank) {}

  // Takes every rank's segment of a new region; `regions` forgets it when the returned memory is freed.
  static std::unique_ptr<CommMemory> Add(const std::shared_ptr<ShmRegions>& regions,
                                         std::vector<SharedMemory> segments);

  // Where [data, data + bytes) lies.
  ShmPlace Find(const void* data, int64_t bytes) const;
  // The same place in rank `rank`'s segment, as mapped here.
  char* At(const ShmPlace& place, int rank) const;

 private:
  class Memory;
  struct Region {
    int32_t id;
    std::vector<SharedMemory> segments;
  };

  const int rank_;
  mutable std::mutex mutex_;
  int32_t next_id_ = 0;
  std::vector<Region> regions_;  // few: they are searched one by one
};

}  // namespace distill
