// Attempts at what fails now and then: again after a pause that doubles, with jitter, so that thousands of ranks do not
// come back at the same time ("full jitter", Brooker 2015, "Exponential Backoff And Jitter").
//
//   return Retry(policy, counters, "read s3://bucket/key", [&]() -> absl::Status { return ReadOnce(); });
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace distill {

struct RetryPolicy {
  int attempts = 8;                                      // in all
  absl::Duration first_pause = absl::Milliseconds(200);  // the longest one after the first attempt
  absl::Duration longest_pause = absl::Seconds(10);
  absl::Duration total = absl::Minutes(5);  // no attempt begins later than this after the first; may be infinite
};

// What the stores of this process have done; any thread may read and add.
struct StoreCounters {
  std::atomic<int64_t> bytes_read{0};
  std::atomic<int64_t> bytes_written{0};
  std::atomic<int64_t> requests{0};
  std::atomic<int64_t> retries{0};
  std::atomic<int64_t> stalls{0};  // answers that were cut because nothing came
};

// Whether another attempt may help: Unavailable, DeadlineExceeded, Aborted.
bool MayHelpToRetry(const absl::Status& status);

// Calls `attempt` until it succeeds, fails in a way that no retry helps (the error comes back as it is), or the
// policy's limits are reached; then the last error, with how many attempts were made and how long it took. `what`: for
// the log. Blocks.
[[nodiscard]] absl::Status Retry(const RetryPolicy& policy, StoreCounters& counters, absl::string_view what,
                                 absl::FunctionRef<absl::Status()> attempt);

}  // namespace distill
