#pragma once

#include <cstdint>

namespace distill {

// The sum of the squares, in float64. The same bits on every machine and for any number of threads: a float's square is
// exact in float64, and the order of the additions depends on `count` alone.
double SumOfSquares(const float* values, int64_t count);

}  // namespace distill
