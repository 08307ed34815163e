// How the data of a call over the fabric are cut. Internal to comm/.
#pragma once

#include <algorithm>
#include <cstdint>

#include "libdistill/comm/ring.h"

namespace distill {

// Of a message; on a device every reduction is a kernel to start and to wait for.
constexpr int64_t kFabricChunkBytes = 256 << 10;
constexpr int64_t kDeviceChunkBytes = 1 << 20;

// Of blocks of this length: so many to a block that every rail carries a part of each step, if they get no shorter than
// what is worth a message, and on a device a kernel.
constexpr int64_t RailChunkBytes(int64_t block_bytes, int rails, int64_t chunk_bytes) {
  const int64_t shortest = chunk_bytes / 4;
  return rails == 1 ? chunk_bytes : std::clamp(block_bytes / rails, shortest, chunk_bytes);
}

// `blocks` of nearly `count / blocks` elements, each of `chunks` pieces, the last ones short or empty. A pure function
// of arguments that are the same on every rank.
struct FabricCut {
  FabricCut(int64_t count, int64_t blocks, int64_t element_bytes, int64_t chunk_bytes)
      : count(count), blocks(blocks), size(element_bytes), longest((count + blocks - 1) / blocks) {
    per_chunk = std::max<int64_t>(1, std::min(longest, chunk_bytes / size));
    chunks = (longest + per_chunk - 1) / per_chunk;
  }
  int64_t Begin(int64_t block) const { return block * (count / blocks) + std::min(block, count % blocks); }
  int64_t Length(int64_t block) const { return Begin(block + 1) - Begin(block); }
  // Where chunk c begins in a block, and how many elements it has there.
  int64_t ChunkBegin(int64_t chunk) const { return chunk * per_chunk; }
  int64_t ChunkLength(int64_t block, int64_t chunk) const {
    return std::clamp<int64_t>(Length(block) - ChunkBegin(chunk), 0, per_chunk);
  }
  int64_t count, blocks, size, longest;
  int64_t per_chunk = 1;
  int64_t chunks = 1;
};

// A reduce-scatter's messages: all steps of a group of chunks, then those of the next group, so that partial sums take
// the room of a group, however long the blocks are. A chunk of a step waits for the same one of the step before, a
// group earlier: of several groups none is shorter than the ring's window, so that as many messages are under way.
struct ReduceScatterOrder {
  // `window`: Ring::window().
  ReduceScatterOrder(int64_t ranks, int64_t chunks, int64_t window)
      : steps(ranks - 1), groups(CeilDivide(chunks, MostChunks(window))), group(CeilDivide(chunks, groups)) {}
  // Of a group; a rank keeps twice so many as partial sums.
  static constexpr int64_t MostChunks(int64_t window) { return std::max<int64_t>(4 * kRingWindow, 2 * window); }
  static int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }
  int64_t Step(int64_t m) const { return m / group % steps; }
  int64_t Chunk(int64_t m) const { return m / (group * steps) * group + m % group; }
  int64_t rounds() const { return groups * steps; }  // of `group` messages each
  int64_t steps, groups, group;
};

}  // namespace distill
