// Memory that Allocate registered with the fabric once, found again by address. Internal to comm/.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "libdistill/comm/memory.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

struct FoundRegion {
  const FabricMemory* memory = nullptr;
  int64_t number = 0;  // no other of this communicator's has or had it; 0: none was found
  int64_t at = 0;      // how far in the memory the bytes begin
};

// Any thread: memory is freed while another thread is in a call.
class FabricRegions {
 public:
  // Registers the memory; `regions` forgets it when what is returned is freed, which may be after the communicator.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CommMemory>> Add(const std::shared_ptr<FabricRegions>& regions,
                                                                       std::unique_ptr<CommMemory> memory,
                                                                       FabricEndpoint& endpoint);

  // The registration that covers [data, data + bytes), or none. It stays while the memory does.
  FoundRegion Find(const void* data, int64_t bytes) const;

  // Before the endpoint goes. The memory itself stays with its owner.
  void Clear();

 private:
  class Memory;
  struct Region {
    const char* data;
    int64_t bytes;
    std::unique_ptr<FabricMemory> registration;
    int64_t number;
  };

  mutable std::mutex mutex_;
  std::vector<Region> regions_;  // few: they are searched one by one
  int64_t added_ = 0;
};

}  // namespace distill
