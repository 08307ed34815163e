// How a collective adds up what the ranks give.
#pragma once

#include <cstdint>

namespace distill {

enum class ReduceOp : uint8_t { kSum, kAverage, kMin, kMax, kProduct };

// "sum", "average", "min", "max", "product".
const char* NameOf(ReduceOp op);

}  // namespace distill
