#include "libdistill/loss/sweep_loops.h"

namespace distill {

const SweepRowFunction kSweepPlain = SweepRowLoops;

}  // namespace distill
