// Threads that may be refused: containers and batch systems limit how many a job has.
//
//   DISTILL_ASSIGN_OR_RETURN(thread_, StartThread("the watchdog", [this] { Watch(); }));
#pragma once

#include <functional>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace distill {

// The caller joins or detaches it. ResourceExhausted: the system gives this process no more threads, nothing runs.
[[nodiscard]] absl::StatusOr<std::thread> StartThread(absl::string_view purpose, std::function<void()> body);

// From now on the calling thread gets about a tenth of a core that another thread of this process wants too, and all of
// one that is idle: for work ahead of those that compute. Does nothing where the system has no priorities of threads.
void YieldToOtherThreads();

}  // namespace distill
