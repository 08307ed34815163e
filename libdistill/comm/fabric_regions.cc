#include "libdistill/comm/fabric_regions.h"

#include <utility>

#include "libdistill/core/status_macros.h"

namespace distill {

// Keeps the list alive, so that memory may be freed after its communicator.
class FabricRegions::Memory : public CommMemory {
 public:
  Memory(std::unique_ptr<CommMemory> memory, std::shared_ptr<FabricRegions> regions)
      : CommMemory(memory->data(), memory->bytes()), memory_(std::move(memory)), regions_(std::move(regions)) {}
  ~Memory() override {
    const std::lock_guard<std::mutex> lock(regions_->mutex_);
    std::erase_if(regions_->regions_, [this](const Region& region) { return region.data == data(); });
  }

 private:
  const std::unique_ptr<CommMemory> memory_;  // given back once its registration is gone
  const std::shared_ptr<FabricRegions> regions_;
};

absl::StatusOr<std::unique_ptr<CommMemory>> FabricRegions::Add(const std::shared_ptr<FabricRegions>& regions,
                                                               std::unique_ptr<CommMemory> memory,
                                                               FabricEndpoint& endpoint) {
  Region region = {memory->data(), memory->bytes(), std::make_unique<FabricMemory>(), 0};
  DISTILL_ASSIGN_OR_RETURN(*region.registration,
                           endpoint.Register(region.data, static_cast<size_t>(region.bytes), FabricUse::kForGood));
  {
    const std::lock_guard<std::mutex> lock(regions->mutex_);
    region.number = ++regions->added_;
    regions->regions_.push_back(std::move(region));
  }
  return std::make_unique<Memory>(std::move(memory), regions);
}

FoundRegion FabricRegions::Find(const void* data, int64_t bytes) const {
  const char* wanted = static_cast<const char*>(data);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Region& region : regions_) {
    if (wanted < region.data || wanted + bytes > region.data + region.bytes) continue;
    return {region.registration.get(), region.number, wanted - region.data};
  }
  return {};
}

void FabricRegions::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  regions_.clear();
}

}  // namespace distill
