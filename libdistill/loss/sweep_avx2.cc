#include "libdistill/loss/sweep_loops.h"

namespace distill {

const SweepRowFunction kSweepAvx2 = SweepRowLoops;

}  // namespace distill
