// The sweep for one kind of CPU; internal to adamw*.cc. No types of other headers than adamw_sweep.h's here: what is
// compiled for AVX-512 must not leave inline functions that the linker could pick for every CPU.
#pragma once

#include "libdistill/optim/adamw_sweep.h"

namespace distill {

using AdamWFunction = void (*)(const AdamWRun& run, const AdamWFactors& factors);

extern const AdamWFunction kAdamWPlain;
extern const AdamWFunction kAdamWAvx2;
extern const AdamWFunction kAdamWAvx512;

}  // namespace distill
