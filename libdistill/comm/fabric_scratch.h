// What a communicator over the fabric keeps for its calls, beside the user's memory. Pure functions, which plans ask.
// Internal to comm/.
#pragma once

#include <algorithm>
#include <cstdint>

#include "libdistill/comm/fabric_credits.h"
#include "libdistill/comm/fabric_cut.h"

namespace distill {

// Of a message between pairs of ranks: on a device as long as the ring's, since each is a kernel to start, but so many
// that all rails are used.
constexpr int64_t PairChunkBytes(int64_t bytes, int rails, bool on_device) {
  if (!on_device) return kFabricChunkBytes;
  return std::clamp(bytes / (2 * rails), kFabricChunkBytes, kDeviceChunkBytes);
}

// Of a tree, also on a device: two chunks for each rail at least, since a chunk passes all levels, one after the other.
constexpr int64_t TreeChunkBytes(int64_t bytes, int rails) {
  return RailChunkBytes(bytes, 2 * rails, kFabricChunkBytes);
}

// Of direct exchange, where a chunk of every other rank lands at one time, twice: shorter among more ranks, so that 512
// take no more than 256, which take 8 MiB. A device has more room, and a kernel to start for each group.
constexpr int64_t DirectChunkBytes(int ranks, bool on_device) {
  constexpr int64_t kLandingBytes = 4 << 20;
  constexpr int64_t kDeviceLandingBytes = 64 << 20;
  const int64_t shortest = ranks <= 256 ? 16 << 10 : 8 << 10;
  const int64_t landing = on_device ? kDeviceLandingBytes : kLandingBytes;
  return std::clamp(landing / (2 * (ranks - 1)), shortest, kFabricChunkBytes);
}

// From so many rails on the ring has no more messages under way, and keeps no more for them.
constexpr int kRailsOfLongestWindow = 2 * kRingWindow;

// At most, after calls of `bytes` each, all ranks' blocks together; whichever algorithm carries them out. `scatters`:
// among them are reduce-scatters. No reduces to one rank, which keep sums that wait to leave as well.
constexpr int64_t FabricScratchBytes(int ranks, int rails, int64_t bytes, bool scatters, bool on_device) {
  constexpr int64_t kExchangeWindow = 8;  // ExchangePlan's
  const int64_t window = RingWindow(rails);
  const int64_t longest = on_device ? kDeviceChunkBytes : kFabricChunkBytes;
  const int64_t block = (bytes + ranks - 1) / ranks;
  const int64_t ring = window * longest + FabricCredits::kBytes;
  const int64_t partial =
      scatters && ranks > 2 ? 2 * ReduceScatterOrder::MostChunks(window) * std::min(longest, block) : 0;
  const int64_t direct = 2 * (ranks - 1) * std::min(DirectChunkBytes(ranks, on_device), block);
  // Recursive doubling adds what fits there into spare memory behind it, as long as the data.
  const int64_t lands = kExchangeWindow * std::min(PairChunkBytes(bytes, rails, on_device), bytes);
  const int64_t pairs = lands + (bytes <= lands ? bytes : 0);
  return ring + partial + std::max(direct, pairs);
}

}  // namespace distill
