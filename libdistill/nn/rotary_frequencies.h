// The frequencies of rotary positions (Su et al. 2021), and how they are stretched for texts longer than those of the
// first training; inside nn/ only. Sources: transformers' modeling_rope_utils.py; Peng et al. 2023 (YaRN, and what
// came before it), Ding et al. 2024 (LongRoPE), Llama 3.1.
#pragma once

#include <cstdint>

#include <torch/types.h>

#include "libdistill/nn/rope_config.h"

namespace distill {

// float32 [rotated / 2] on the CPU, in a document of this key (RopeConfig::KeyOf).
torch::Tensor InverseFrequencies(const RopeConfig& rope, int64_t head_size, int64_t key);

}  // namespace distill
