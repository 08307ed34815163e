#include "libdistill/optim/adamw_loops.h"

namespace distill {

const AdamWFunction kAdamWAvx2 = AdamWLoops;

}  // namespace distill
