// Work on all of LibTorch's threads, which are the one pool of a rank.
//
// In a file of its own: at::parallel_for is a template that runs on one thread wherever it is compiled without OpenMP,
// and says nothing.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace distill {

// Calls `body` with parts [begin, end) of [0, count), each at least `grain` long where there is that much, on
// at::get_num_threads() threads, and blocks until all are done. The first exception of a body is thrown on. Within
// another ParallelFor, and outside on one thread, it is one call.
void ParallelFor(int64_t count, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body);

}  // namespace distill
