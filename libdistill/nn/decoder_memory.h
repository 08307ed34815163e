// How much memory a decoder's passes take beside its weights, from its shape alone: what plan/memory_plan.h adds up.
#pragma once

#include "libdistill/nn/decoder_config.h"
#include "libdistill/nn/pass_memory.h"

namespace distill {

// decoder.cc's tensors, counted; tests compare with what LibTorch's allocator is asked for.
PassMemory MemoryOf(const DecoderConfig& config, const ModelPass& pass);

}  // namespace distill
