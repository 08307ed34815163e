// Counts what a thread asks of the allocator and of the kernel.
#pragma once

#include <cstdint>

namespace distill::testing {

// Allocations of the calling thread since it began: this program's malloc counts them.
int64_t Allocations();

// System calls of the calling thread since CountSystemCalls.
struct SystemCalls {
  int64_t waits = 0;  // the core given away, sleeps, and looks whether the peer still runs
  int64_t others = 0;
  int first_other = -1;  // its number
};

// From here on the calling thread's system calls are counted: those that wait are carried out, the others return 0
// instead. It cannot end any more. False where this kernel has no filters (seccomp).
bool CountSystemCalls();
SystemCalls CountedSystemCalls();

}  // namespace distill::testing
