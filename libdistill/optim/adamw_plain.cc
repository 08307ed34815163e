#include "libdistill/optim/adamw_loops.h"

namespace distill {

const AdamWFunction kAdamWPlain = AdamWLoops;

}  // namespace distill
