// Requests to a store that do not wait for one another.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace distill {

// Calls act(0) to act(count - 1), `most` of them at a time, each by some thread; blocks until all have returned. After
// an error no more are begun, and it comes back.
[[nodiscard]] absl::Status InParallel(size_t count, size_t most, absl::FunctionRef<absl::Status(size_t)> act);

}  // namespace distill
