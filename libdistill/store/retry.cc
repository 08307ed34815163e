#include "libdistill/store/retry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libdistill/core/log.h"
#include "libdistill/core/random.h"

namespace distill {

bool MayHelpToRetry(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

absl::Status Retry(const RetryPolicy& policy, StoreCounters& counters, absl::string_view what,
                   absl::FunctionRef<absl::Status()> attempt) {
  const absl::Time start = absl::Now();
  // Ranks that failed together must not draw the same pauses: the address of a local differs from process to process.
  Random random(static_cast<uint64_t>(absl::ToUnixNanos(start)) ^ reinterpret_cast<uintptr_t>(&start));
  absl::Duration longest = policy.first_pause;
  for (int attempts = 1;; ++attempts) {
    const absl::Status status = attempt();
    if (absl::IsDeadlineExceeded(status)) ++counters.stalls;
    if (status.ok() || !MayHelpToRetry(status)) return status;
    const absl::Duration pause = random.Uniform() * longest;
    const absl::Duration took = absl::Now() - start;
    if (attempts >= policy.attempts || took + pause > policy.total) {
      return absl::Status(status.code(),
                          absl::StrCat(status.message(), " (given up after ", attempts, " attempts in ",
                                       absl::FormatDuration(absl::Trunc(took, absl::Milliseconds(10))), ")"));
    }
    ++counters.retries;
    // The first failure is common with large stores; what goes on failing is worth a line.
    if (attempts > 1)
      LogWarning(absl::StrCat(what, ": ", status.message(), "; attempt ", attempts + 1, " of ", policy.attempts));
    absl::SleepFor(pause);
    longest = std::min(2 * longest, policy.longest_pause);
  }
}

}  // namespace distill
