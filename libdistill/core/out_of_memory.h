// What a process does that has no host memory left, wherever it notices.
#pragma once

namespace distill {

// The text of such an error.
inline constexpr char kOutOfHostMemory[] =
    "out of host memory: start fewer ranks on this host, or lower per_device_train_batch_size or max_length; --plan "
    "tells "
    "what a run needs";

// For std::bad_alloc that nobody catches, in a thread of a library or in what a library does first: the process says
// kOutOfHostMemory with its rank and host, and ends with exit code 1. Idempotent; before the first thread.
void HandleUncaughtOutOfMemory();

}  // namespace distill
