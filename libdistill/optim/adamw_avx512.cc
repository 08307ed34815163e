#include "libdistill/optim/adamw_loops.h"

namespace distill {

const AdamWFunction kAdamWAvx512 = AdamWLoops;

}  // namespace distill
