// What the kernels of gradients/squares_cuda.h do, thread by thread, on the CPU.
#pragma once

#include <cstdint>

namespace distill::testing {

double SumOfSquaresAsThreads(const float* values, int64_t count);

}  // namespace distill::testing
