#include "libdistill/comm/reduce_loops.h"

namespace distill {

const ReduceTable kReduceAvx2 = kLoops;

}  // namespace distill
