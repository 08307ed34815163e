#include "libdistill/loss/sweep_loops.h"

namespace distill {

const SweepRowFunction kSweepAvx512 = SweepRowLoops;

}  // namespace distill
