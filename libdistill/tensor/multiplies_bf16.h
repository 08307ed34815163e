// Which devices multiply matrices of bfloat16 in hardware.
#pragma once

#include <c10/core/Device.h>

namespace distill {

// Whether it has instructions of its own for matrix products of bfloat16, which are emulated elsewhere: GPUs from
// compute capability 8.0 on, CPUs with AVX512-BF16 or AMX.
bool MultipliesBf16(c10::Device device);

}  // namespace distill
