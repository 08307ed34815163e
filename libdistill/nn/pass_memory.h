// What a plan asks of a model's passes, whatever its family: decoder_memory.h, encoder_memory.h and gru_memory.h
// answer, and plan/memory_plan.h adds up.
#pragma once

#include <cstdint>

#include "libdistill/tensor/product_scratch.h"

namespace distill {

// Of one micro-batch.
struct ModelPass {
  int64_t tokens = 0;         // of a recurrent network: frames
  int64_t element_bytes = 4;  // of the weights' type, in which the model works
  // Documents of several lengths are attended to in groups, and put together again; in types of 2 bytes on GPUs, of
  // compute capability 8.0 or later as is assumed, at once where there are kernels for it.
  bool several_lengths = false;
  bool recomputes = false;        // EnableGradientCheckpointing
  ProductScratch scratch = {};    // none: products take nothing
  bool drops = false;             // what the model's config says is dropped
  bool drops_in_float32 = false;  // float16 on CPUs: attention that drops, or has a window or a cap, is in float32
  bool on_gpu = false;            // which keeps a byte for each state that may be dropped, where a CPU keeps a seed
  int64_t kept_blocks = -1;       // of a decoder's: how many, the last ones, a backward pass comes to; -1: all of them
};

struct PassMemory {
  int64_t kept_bytes = 0;      // of a pass with gradients, until its backward pass: what autograd saves
  int64_t forward_bytes = 0;   // at the most during a pass without gradients, its result included
  int64_t backward_bytes = 0;  // at the most above what is kept, during the backward pass of one block
  int64_t output_bytes = 0;    // of what a pass without gradients gives its loss, where that is no head's input
  // What was attended is kept of each group of documents, and put together again.
  bool attends_in_groups = false;
};

}  // namespace distill
