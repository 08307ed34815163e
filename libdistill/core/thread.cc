#include "libdistill/core/thread.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace distill {

absl::StatusOr<std::thread> StartThread(absl::string_view purpose, std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no thread for ", purpose, ": ", error.what(), " (limits: ulimit -u, pids.max of the container)"));
  }
}

void YieldToOtherThreads() {
#if defined(__linux__)
  constexpr int kLowerBy = 10;  // each step weighs 1.25 times less (sched(7))
  const auto thread = static_cast<id_t>(gettid());
  const int now = getpriority(PRIO_PROCESS, thread);
  setpriority(PRIO_PROCESS, thread, std::min(now + kLowerBy, 19));  // a thread's on Linux; lowering is always allowed
#endif
}

}  // namespace distill
