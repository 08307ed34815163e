// LibTorch's flash kernels for variable lengths have no CPU form; the tests that link this get one, by whole matrices,
// which checks what the real ones demand.
#pragma once

#include <cstdint>

namespace distill::testing {

// Calls so far.
int64_t FlashForwards();
int64_t FlashBackwards();

}  // namespace distill::testing
