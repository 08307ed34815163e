// The arithmetic of collectives: element by element over several buffers, on the widest vectors that the CPU has.
// float16 and bfloat16 are accumulated in float32 and rounded once per call (to nearest, ties to even); integers wrap,
// and their average is the wrapped sum divided by the number of ranks, truncated towards zero (communicator.h).
#pragma once

#include <cstdint>

#include "libdistill/comm/reduce_op.h"
#include "libdistill/core/dtype.h"

namespace distill {

// Results that nobody reads again before the caches have forgotten them are faster written past the caches: the old
// contents of their lines need not be fetched. Not for a buffer that is read in the same call.
enum class Stores { kCached, kPastCaches };
// For a call that touches so many bytes of the machine's memory.
Stores StoresFor(int64_t touched_bytes);

// out[i] = sources[0][i] op sources[1][i] op ..., in this order, then divided by `divisor`. kAverage sums: the caller
// passes the divisor in the last call for an element. `out` may be one of the sources; else no overlap.
void Reduce(void* out, const void* const* sources, int source_count, int64_t count, DType dtype, ReduceOp op,
            int divisor = 1, Stores stores = Stores::kCached);

// The same result into several buffers, each of which may be one of the sources; into the first `past_caches` of them
// past the caches.
void ReduceToAll(void* const* outs, int out_count, const void* const* sources, int source_count, int64_t count,
                 DType dtype, ReduceOp op, int divisor = 1, int past_caches = 0);

// No overlap.
void CopyBytes(void* to, const void* from, int64_t bytes, Stores stores = Stores::kCached);

// float16 or bfloat16 to float32 and back.
void WidenToFloat(const void* in, float* out, int64_t count, DType dtype);
void NarrowFromFloat(const float* in, void* out, int64_t count, DType dtype);

}  // namespace distill
