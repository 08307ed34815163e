// The sweep for one kind of CPU; internal to sweep*.cc. No types of other headers than sweep.h's here: what is compiled
// for AVX-512 must not leave inline functions that the linker could pick for every CPU.
#pragma once

#include <cstdint>

#include "libdistill/loss/sweep.h"

namespace distill {

using SweepRowFunction = SweepSums (*)(RowOfProducts student, RowOfProducts teacher, int64_t label,
                                       const SweepOptions& options);

extern const SweepRowFunction kSweepPlain;
extern const SweepRowFunction kSweepAvx2;
extern const SweepRowFunction kSweepAvx512;

}  // namespace distill
