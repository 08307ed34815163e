// A buffer of a call over the fabric, with its registration. Internal to comm/.
#pragma once

#include <cstdint>

#include "libdistill/comm/fabric_regions.h"
#include "libdistill/comm/ring.h"
#include "libdistill/transport/fabric_endpoint.h"

namespace distill {

// Registered by Allocate, or for this call alone.
struct FabricRegion {
  char* data = nullptr;
  FabricMemory own;
  FoundRegion found;
  RingPiece Piece(int64_t first, int64_t elements, int64_t size) const {
    return {data + first * size, static_cast<size_t>(elements * size), &memory(), first * size};
  }
  const FabricMemory& memory() const { return found.memory != nullptr ? *found.memory : own; }
};

}  // namespace distill
