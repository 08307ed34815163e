#include "tests/comm/device_elements.h"

#include "libdistill/comm/device_elements.cuh"

namespace distill::testing {

void ReduceElements(void* out, const void* const* sources, int source_count, int64_t count, DType dtype, ReduceOp op,
                    int divisor) {
  DeviceSources all = {};
  for (; all.count < source_count; ++all.count) all.at[all.count] = sources[all.count];
  ForType(dtype, [&](auto type) {
    for (int64_t i = 0; i < count; ++i) ReduceElement(static_cast<decltype(type)*>(out), all, i, op, divisor);
    return 0;
  });
}

}  // namespace distill::testing
