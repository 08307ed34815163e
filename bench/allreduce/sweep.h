// The limit of an all-reduce inside one host: the memory traffic alone, without any synchronisation.
#pragma once

#include <cstdint>

namespace distill {

// Seconds (the best of `repeats`) for this rank's share of an all-reduce of `bytes` bytes of float32 over `ranks` ranks
// whose buffers are all mapped: read the own slice of every rank's buffer, add, write the sum back to each.
double SweepSeconds(int64_t bytes, int ranks, int repeats);

// Bytes a second that this core copies from memory to memory, each counted once.
double CopyBandwidth();

}  // namespace distill
