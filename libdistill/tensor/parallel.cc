#include "libdistill/tensor/parallel.h"

#include <ATen/Parallel.h>

#if !defined(_OPENMP)
#error "compile this file with OpenMP"
#endif

namespace distill {

void ParallelFor(int64_t count, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) { body(begin, end); });
}

}  // namespace distill
