// How much memory this process has, and has had: for benchmarks, for a run's metrics, and for a plan
// (plan/memory_plan.h) and what is compared with it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>

namespace distill {

// The most memory that this process has had since its start or the last ResetPeakMemory, in bytes: on the CPU its
// resident pages less the other ranks' that it maps now (of a page that n processes map, an n-th counts for each), on a
// GPU what torch has allocated there. To be asked while buckets are still mapped. 0 where the system does not say.
int64_t PeakMemoryBytes(c10::Device device);
void ResetPeakMemory(c10::Device device);
// The same of what it has now, once freed memory is given back to the system.
int64_t MemoryInUseBytes(c10::Device device);

// All memory of a GPU, whoever uses it; 0 for the CPU, and where the system does not say. Asked for once a device.
int64_t DeviceMemoryBytes(c10::Device device);

// Bytes by what they are: {{"teacher's weights", 1 << 30}}.
using NamedBytes = std::vector<std::pair<std::string, int64_t>>;

// What a process has before it has models: the program, the libraries, and what these keep for themselves.
struct ProcessMemory {
  int64_t own_bytes = 0;     // of this process alone
  int64_t shared_bytes = 0;  // pages of files: the ranks of a host have them once together
  int64_t bytes() const { return own_bytes + shared_bytes; }
};

// Measured, in this process, after a matrix product of this type on the CPU and its gradient, for what its library
// keeps; the code of a step's other operations is added. Takes some milliseconds.
ProcessMemory MeasureProcess(torch::Dtype dtype);

}  // namespace distill
