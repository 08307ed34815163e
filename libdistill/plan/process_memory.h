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

// Measured, in this process: a step of distillation is made on the CPU, of models so small that their tensors do not
// count (under 2 MiB), since most pages of a library come in when its code first runs. Takes about half a second.
ProcessMemory MeasureProcess(torch::Dtype dtype);

}  // namespace distill
