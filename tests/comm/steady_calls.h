// Counts what a thread asks of the allocator and of the kernel.
#pragma once

#include <cstdint>

namespace distill::testing {

// Allocations of the calling thread since it began: this program's malloc counts them.
int64_t Allocations();

// System calls of the calling thread since ForbidSystemCalls.
struct SystemCalls {
  int64_t waits = 0;  // the core given away, sleeps, and looks whether the peer still runs
  int64_t others = 0;
  int first_other = -1;  // its number
};

// From here on the calling thread makes no system call for the rest of its life: each is counted instead, and returns
// 0. False where this kernel has no filters (seccomp).
bool ForbidSystemCalls();
SystemCalls CountedSystemCalls();

}  // namespace distill::testing
