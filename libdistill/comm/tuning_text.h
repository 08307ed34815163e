// What the log says of the algorithms of a job when its communicator is made. Internal to comm/.
#pragma once

#include <string>

#include "libdistill/comm/tuning.h"

namespace distill {

// How an all-reduce is carried out, for each size, and where a tree is asked for, a broadcast and a reduce. `flat`: of
// calls between all ranks, whose layout `all` is; `lane`: of the lanes of two levels, null where there are none.
std::string DescribeAlgorithms(const CommTuning& flat, const CommTuning* lane, const CommLayout& all);

}  // namespace distill
