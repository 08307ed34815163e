#include "libdistill/comm/reduce_loops.h"

namespace distill {

const ReduceTable kReduceAvx512 = kLoops;

}  // namespace distill
