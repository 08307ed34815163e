// What a kernel of comm/device_reduce.h does, element by element, on the CPU.
#pragma once

#include "libdistill/comm/device_reduce.h"

namespace distill::testing {

void ReduceElements(void* out, const void* const* sources, int source_count, int64_t count, DType dtype, ReduceOp op,
                    int divisor);

}  // namespace distill::testing
