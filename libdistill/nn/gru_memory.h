// How much memory the passes of a recurrent network take beside its weights, from its shape alone: what
// plan/memory_plan.h adds up.
#pragma once

#include "libdistill/nn/gru.h"
#include "libdistill/nn/pass_memory.h"

namespace distill {

// Of GruCtc, with CTC over `targets` classes a row. On CPUs the tensors of gru_recurrence.cc, counted; tests compare
// with what LibTorch's allocator is asked for. On GPUs what cuDNN keeps of a frame is estimated: six times the layer's
// output.
PassMemory MemoryOf(const GruOptions& options, int64_t targets, const ModelPass& pass);

}  // namespace distill
