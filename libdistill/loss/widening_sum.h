// Adds what a head's narrow product has to a wide gradient, in one pass over both; no LibTorch here. Inside loss/ only.
#pragma once

#include <cstdint>

namespace distill {

// sum[i] += the float32 that parts[i] is, a bfloat16 or a float16, for i in [0, count). One thread.
void AddWidened(const uint16_t* parts, bool is_half, float* sum, int64_t count);

// For each kind of CPU (core/vectors.h).
using AddWidenedFunction = void (*)(const uint16_t* parts, bool is_half, float* sum, int64_t count);
extern const AddWidenedFunction kAddWidenedPlain, kAddWidenedAvx2, kAddWidenedAvx512;

}  // namespace distill
