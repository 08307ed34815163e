// How much memory a decoder's passes take beside its weights, from its shape alone: what plan/memory_plan.h adds up.
#pragma once

#include <cstdint>

#include <torch/types.h>

#include "libdistill/nn/decoder_config.h"

namespace distill {

struct DecoderPass {
  int64_t tokens = 0;
  int64_t element_bytes = 4;     // of the weights' type, in which the model works
  bool several_lengths = false;  // documents of several lengths are attended to in groups, and put together again
  bool recomputes = false;       // Decoder::EnableGradientCheckpointing
  bool widens = false;           // WidensProducts
  // Above 0: the attention's probabilities are dropped (Decoder::EnableDropout) on a CPU, where each head's matrix of a
  // document of so many tokens is kept then. GPUs keep a seed instead.
  int64_t dropped_length = 0;
};

// Whether LibTorch, on this machine's CPU, makes a matrix product of this type in float32 first, beside the result: so
// with bfloat16 on AVX-512 without instructions for it.
bool WidensProducts(torch::Dtype dtype);

struct DecoderMemory {
  int64_t kept_bytes = 0;      // of a pass with gradients, until its backward pass: what autograd saves
  int64_t forward_bytes = 0;   // at the most during a pass without gradients, its result included
  int64_t backward_bytes = 0;  // at the most above what is kept, during the backward pass of one block
};

// decoder.cc's tensors, counted; tests compare with what LibTorch's allocator is asked for.
DecoderMemory MemoryOf(const DecoderConfig& config, const DecoderPass& pass);

}  // namespace distill
