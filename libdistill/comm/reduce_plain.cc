#include "libdistill/comm/reduce_loops.h"

namespace distill {

const ReduceTable kReducePlain = kLoops;

}  // namespace distill
