// How much memory an encoder's passes take beside its weights, from its shape alone: what plan/memory_plan.h adds up.
#pragma once

#include "libdistill/nn/encoder_config.h"
#include "libdistill/nn/pass_memory.h"

namespace distill {

// What an encoder ends with: the head of a masked language model (encoder.h), or one of encoder_heads.h.
enum class EncoderUse { kWords, kClass, kSpan };

// encoder_body.cc's tensors, and those of its heads, counted; tests compare with what LibTorch's allocator is asked
// for.
PassMemory MemoryOf(const EncoderConfig& config, EncoderUse use, const ModelPass& pass);

}  // namespace distill
