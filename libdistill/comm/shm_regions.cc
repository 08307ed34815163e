#include "libdistill/comm/shm_regions.h"

#include <algorithm>
#include <utility>

namespace distill {

// Keeps the list alive, so that memory may be freed after its communicator.
class ShmRegions::Memory : public CommMemory {
 public:
  Memory(char* data, int64_t bytes, int32_t id, std::shared_ptr<ShmRegions> regions)
      : CommMemory(data, bytes), id_(id), regions_(std::move(regions)) {}
  ~Memory() override {
    std::vector<SharedMemory> freed;  // unmapped when nobody waits for the list
    const std::lock_guard<std::mutex> lock(regions_->mutex_);
    const auto region = std::find_if(regions_->regions_.begin(), regions_->regions_.end(),
                                     [this](const Region& candidate) { return candidate.id == id_; });
    freed = std::move(region->segments);
    regions_->regions_.erase(region);
  }

 private:
  const int32_t id_;
  const std::shared_ptr<ShmRegions> regions_;
};

std::unique_ptr<CommMemory> ShmRegions::Add(const std::shared_ptr<ShmRegions>& regions,
                                            std::vector<SharedMemory> segments) {
  const SharedMemory& mine = segments[static_cast<size_t>(regions->rank_)];
  const std::lock_guard<std::mutex> lock(regions->mutex_);
  auto memory = std::make_unique<Memory>(mine.data(), static_cast<int64_t>(mine.bytes()), regions->next_id_, regions);
  regions->regions_.push_back({regions->next_id_++, std::move(segments)});
  return memory;
}

ShmPlace ShmRegions::Find(const void* data, int64_t bytes) const {
  const char* wanted = static_cast<const char*>(data);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Region& region : regions_) {
    const SharedMemory& mine = region.segments[static_cast<size_t>(rank_)];
    if (wanted < mine.data() || wanted + bytes > mine.data() + mine.bytes()) continue;
    return {region.id, wanted - mine.data()};
  }
  return {};
}

char* ShmRegions::At(const ShmPlace& place, int rank) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto region = std::find_if(regions_.begin(), regions_.end(),
                                   [&](const Region& candidate) { return candidate.id == place.region; });
  return region->segments[static_cast<size_t>(rank)].data() + place.offset_bytes;
}

}  // namespace distill
