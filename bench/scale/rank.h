// One rank of the test of how a job grows with its ranks: it meets the others, makes calls whose sums are exact, and
// says what they took. Prints a line "JSON {...}" at the end; bench/run scale reads them.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace distill {

struct ScaleOptions {
  int64_t bytes = 1 << 20;  // of an all-reduce, and of what a reduce-scatter starts from on each rank
  absl::Duration timeout = absl::Minutes(2);
};

// By the launcher's variables. Blocks until the job is over: meeting, all-reduces, a reduce-scatter, a split in two
// with an all-reduce in each part, the end. Internal: a sum is wrong.
[[nodiscard]] absl::Status RunScaleRank(const ScaleOptions& options);

// Prints "READY rank PID" after an all-reduce whose sums were right, then makes all-reduces until one fails, and prints
// how. Internal: a sum is wrong. OK: a call has failed, as was wanted.
[[nodiscard]] absl::Status RunUntilLost(const ScaleOptions& options);

}  // namespace distill
