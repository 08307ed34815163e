// What a process has in memory before it has models: the program, the libraries, and what these keep for themselves.
#pragma once

#include <cstdint>

#include <torch/types.h>

namespace distill {

struct ProcessMemory {
  int64_t own_bytes = 0;     // of this process alone
  int64_t shared_bytes = 0;  // pages of files: the ranks of a host have them once together
  int64_t bytes() const { return own_bytes + shared_bytes; }
};

// Measured, in this process, after a matrix product of this type on the CPU and its gradient, for what its library
// keeps; the code of a step's other operations is added. Takes some milliseconds.
ProcessMemory MeasureProcess(torch::Dtype dtype);

}  // namespace distill
