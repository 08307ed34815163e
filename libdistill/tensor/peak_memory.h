// How much memory this process has had, for benchmarks, for a run's metrics, and for comparing with a plan
// (plan/memory_plan.h).
#pragma once

#include <cstdint>

#include <c10/core/Device.h>

namespace distill {

// The most memory that this process has had since its start or the last ResetPeakMemory, in bytes: on the CPU its
// resident pages less the other ranks' that it maps now (of a page that n processes map, an n-th counts for each), on a
// GPU what torch has allocated there. To be asked while buckets are still mapped. 0 where the system does not say.
int64_t PeakMemoryBytes(c10::Device device);
void ResetPeakMemory(c10::Device device);

}  // namespace distill
