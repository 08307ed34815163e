// Short for deadlines of tests.
#pragma once

#include "absl/time/time.h"
#include "libdistill/core/deadline.h"

namespace distill::testing {

inline Deadline In(int seconds) { return Deadline::After(absl::Seconds(seconds)); }

}  // namespace distill::testing
